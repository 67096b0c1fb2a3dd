// What the consent page can do without: find a role, count what is chosen, and
// not send a form twice. Nothing can be approved here that the server would not.
(() => {
	"use strict";
	const form = document.getElementById("consent");
	if (!form) return;
	const say = form.dataset;
	const byId = id => document.getElementById(id);
	const all = (within, selector) => [...within.querySelectorAll(selector)];
	const seen = e => e.getClientRects().length > 0;
	const block = () => all(form, ".block").find(seen);

	const count = () => {
		const shown = block();
		if (!shown) { byId("chosen").textContent = ""; return; }
		const picked = access => all(shown, "input[value=" + access + "]:checked").length;
		byId("chosen").textContent = say.chosen.replace("{a}", picked("change"))
			.replace("{b}", picked("read")).replace("{n}", all(shown, ".role").length);
		for (const circle of all(shown, ".circle")) {
			const n = all(circle, "input:checked:not([value=none])").length;
			circle.querySelector(".some").textContent = n ? say.some.replace("{n}", n) : "";
		}
	};

	const search = () => {
		const shown = block();
		if (!shown) return;
		const text = byId("find").value.trim().toLowerCase();
		let matches = 0;
		for (const circle of all(shown, ".circle")) {
			const whole = circle.querySelector("summary bdi").textContent.toLowerCase().includes(text);
			let any = false;
			for (const role of all(circle, ".role")) {
				const match = whole || role.querySelector("legend").textContent.toLowerCase().includes(text);
				role.hidden = !match;
				if (match) { any = true; matches++; }
			}
			circle.hidden = !any;
			if (text && any) circle.open = true;
		}
		byId("found").textContent = !text ? "" : matches === 1 ? say.one : say.match.replace("{n}", matches);
	};

	form.addEventListener("change", event => {
		if (event.target.name === "organization") {
			const offer = form.querySelector(".hot.only");
			if (offer && offer.querySelector(":checked") && !offer.classList.contains(event.target.id)) {
				form.querySelector("[name=grant][value=roles]").checked = true;
			}
			search();
		}
		count();
	});
	form.addEventListener("click", event => {
		const button = event.target.closest("[name=bulk]");
		if (!button) return;
		event.preventDefault();
		const access = button.value.slice(button.value.lastIndexOf(":") + 1);
		for (const role of all(button.closest(".circle"), ".role")) {
			if (!role.hidden) role.querySelector("input[value=" + access + "]").checked = true;
		}
		count();
	});
	const find = byId("find");
	find.addEventListener("input", search);
	find.addEventListener("keydown", event => { if (event.key === "Enter") event.preventDefault(); });

	let sent = false;
	form.addEventListener("submit", event => {
		if (sent) event.preventDefault();
		sent = true;
		setTimeout(() => { sent = false; }, 10000);
	});
	addEventListener("pageshow", () => { sent = false; count(); });

	byId("finder").hidden = false;
	count();
})();
