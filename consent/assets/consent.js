// What the pages can do without: find a role, count what is chosen, and not
// send a form twice. The server decides by itself.
(() => {
	"use strict";
	const form = document.getElementById("consent");
	if (!form) return;
	const say = form.dataset;
	const byId = id => document.getElementById(id);
	const all = (within, selector) => [...within.querySelectorAll(selector)];
	const value = name => new FormData(form).get(name);
	const block = () => all(form, ".block").find(e => e.dataset.of === value("organization"));

	// What is chosen and what that allows: it adds up the server's numbers.
	const count = () => {
		const shown = block(), lines = all(form, "[data-say]");
		let text = "", data = [];
		if (shown) {
			let [open, other, own] = shown.dataset.roles.split(","), change = 0, roles = 0, closed = 0, circles = 0, acts = 0, reads = 0;
			for (const circle of all(shown, ".circle")) {
				const picked = all(circle, "input:checked:not([value=none])"), n = picked.length;
				let left = n && +circle.dataset.private;
				circle.querySelector(".some").textContent = n ? say.some.replace("{n}", n) : "";
				other -= left;
				for (const input of picked) {
					if (input.value === "read") { reads++; continue; }
					const [a, b] = input.closest(".role").dataset.items.split(" ");
					acts++;
					change += +a + +b;
					roles += a + b > 0;
					open -= a;
					left -= b;
				}
				closed += left;
				circles += left > 0;
			}
			const grant = value("grant"), mine = value("personal");
			text = say.chosen.replace("{a}", acts).replace("{b}", reads).replace("{n}", all(shown, ".role").length);
			data = grant === "roles" ? [change, roles, closed, circles, open, mine && own, mine ? "" : own, other]
				: (shown.dataset[grant] || "").split(",");
		}
		byId("chosen").textContent = text;
		for (const line of lines) {
			const forms = line.dataset.say.split("|"), n = data.shift(), m = forms[3] && data.shift();
			line.textContent = /\d/.test(n) ? forms[n < 2 ? n : m == 1 ? 2 : forms.length - 1].replace("{n}", n).replace("{m}", m) : "";
			line.closest("div").hidden = !line.parentNode.textContent;
		}
		byId("allows").hidden = !lines[0].textContent;
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
	find.addEventListener("keypress", event => { if (event.key === "Enter") event.preventDefault(); });

	let sent = false;
	form.addEventListener("submit", event => {
		if (sent) event.preventDefault();
		sent = true;
		setTimeout(() => { sent = false; }, 10000);
	});
	addEventListener("pageshow", () => { sent = false; count(); });

	byId("finder").hidden = false;
	byId("ask").hidden = true;
	count();
})();
