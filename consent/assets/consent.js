// What pages can do without: find a role, count, send a form once.
(() => {
	"use strict";
	const form = document.getElementById("consent");
	if (!form) return;
	const say = form.dataset;
	const byId = id => document.getElementById(id);
	const all = (within, selector) => [...within.querySelectorAll(selector)];
	const value = name => new FormData(form).get(name);
	const block = () => all(form, ".block").find(e => e.dataset.of === value("organization"));
	const plural = new Intl.PluralRules(document.documentElement.lang);
	const fill = (message, values) => {
		const forms = JSON.parse(message), n = values.n;
		return (forms[n] ?? forms[plural.select(n)] ?? forms.other)
			.replace(/{(\w+)}/g, (_, name) => String(values[name]).replace(/\B(?=(\d{3})+$)/g, say.group));
	};

	const count = () => {
		const shown = block(), lines = all(form, "[data-say]");
		let text = "", data = [];
		if (shown) {
			let [open, other, own] = shown.dataset.roles.split(","), change = 0, roles = 0, closed = 0, circles = 0, acts = 0, reads = 0;
			for (const circle of all(shown, ".circle")) {
				const picked = all(circle, "input:checked:not([value=none])"), n = picked.length;
				let left = n && +circle.dataset.private;
				circle.querySelector(".some").textContent = fill(n ? say.some : say.roles, {n: all(circle, ".role").length, chosen: n});
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
			text = fill(say.chosen, {n: all(shown, ".role").length, change: acts, read: reads});
			data = grant === "roles" ? [change, roles || "", closed || "", circles || "", +open || "", mine && own, mine ? "" : own, +other || ""]
				: (shown.dataset[grant] || "").split(",");
		}
		byId("chosen").textContent = text;
		for (const line of lines) {
			const n = data.shift();
			line.textContent = /\d/.test(n) ? fill(line.dataset.say, {n}) : "";
			line.closest("div").hidden = !line.closest("dd").textContent.trim();
		}
		byId("allows").hidden = !lines[0].textContent;
	};

	const search = () => {
		const shown = block();
		if (!shown) return;
		const text = find.value.trim().toLowerCase();
		const names = (e, name) => e.querySelector(name).textContent.toLowerCase().includes(text);
		let n = 0;
		for (const circle of all(shown, ".circle")) {
			const whole = names(circle, "bdi");
			let any = false;
			for (const role of all(circle, ".role")) {
				const match = whole || names(role, "legend");
				role.hidden = !match;
				if (match) { any = true; n++; }
			}
			circle.hidden = !any;
			if (text && any) circle.open = true;
		}
		byId("found").textContent = text && fill(say.match, {n});
	};

	form.addEventListener("change", e => {
		if (e.target.name === "organization") {
			const offer = form.querySelector(".hot.only");
			if (offer && offer.querySelector(":checked") && !offer.classList.contains(e.target.id)) {
				form.querySelector("[name=grant][value=roles]").checked = true;
			}
			search();
		}
		count();
	});
	form.addEventListener("click", e => {
		const button = e.target.closest("[name=bulk]");
		if (!button) return;
		e.preventDefault();
		const access = button.value.split(":").pop();
		for (const role of all(button.closest(".circle"), ".role")) {
			if (access === "none" || !role.hidden) role.querySelector("[value=" + access + "]").checked = true;
		}
		count();
	});
	const find = byId("find");
	find.addEventListener("input", search);
	find.addEventListener("keypress", e => { if (e.key === "Enter") e.preventDefault(); });

	let sent = false;
	form.addEventListener("submit", e => {
		if (sent) e.preventDefault();
		sent = true;
		setTimeout(() => { sent = false; }, 1e4);
	});
	addEventListener("pageshow", () => { sent = false; count(); });

	byId("finder").hidden = false;
	byId("ask").hidden = true;
	count();
})();
