// What pages can do without: find a role, ask what a choice gives, send a form once.
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
			.replace(/{(\w+)}/g, (whole, name) => name in values ? String(values[name]).replace(/\B(?=(\d{3})+$)/g, say.group) : whole);
	};

	// The bar says at once which roles are chosen; the name in it is isolated.
	const count = () => {
		const shown = block();
		if (!shown) return;
		let chosen = 0;
		for (const circle of all(shown, ".circle")) {
			const n = all(circle, "input:checked:not([value=none])").length, some = circle.querySelector(".some");
			if (some) some.textContent = fill(n ? say.some : say.roles, {n: all(circle, ".role").length, chosen: n});
			chosen += n;
		}
		const text = fill(chosen ? say.bar : value("personal") ? say.personal : say.none, {n: all(shown, ".role").length, chosen});
		const [before, after] = text.split("{organization}"), bar = byId("bar");
		bar.replaceChildren(before);
		if (after !== undefined) bar.append(shown.querySelector("h3 bdi").cloneNode(true), after);
	};

	// What a choice gives the server says, some time after the last change: what
	// is seen at once would be read out at every press. Until it has said so, and
	// where it does not, the page says that the choice has changed.
	let asked = 0;
	const ask = async () => {
		const mine = ++asked;
		await new Promise(done => setTimeout(done, 600));
		if (mine !== asked || !value("organization")) return;
		try {
			const answer = await fetch("/oauth/authorize/preview", {method: "POST", body: new URLSearchParams(new FormData(form))});
			const text = answer.ok ? await answer.text() : "";
			if (mine !== asked || !text) return; // there is a newer choice, or nothing to show
			byId("summary").replaceWith(new DOMParser().parseFromString(text, "text/html").getElementById("summary"));
		} catch {
			return;
		}
		form.classList.remove("moved");
		byId("said").textContent = all(byId("gets"), ".lines > li").filter(e => e.getClientRects().length).slice(0, 2).map(e => {
			const copy = e.lastElementChild.cloneNode(true);
			all(copy, "details").forEach(e => e.remove());
			return copy.textContent;
		}).join(" ");
	};
	const follow = () => {
		count();
		if (!("live" in say)) return;
		form.classList.add("moved");
		ask();
	};

	const search = () => {
		const shown = block();
		byId("finder").hidden = !shown || !shown.querySelector("details");
		if (!shown) return;
		const text = find.value.trim().toLowerCase();
		const names = (e, name) => e.querySelector(name).textContent.toLowerCase().includes(text);
		let n = 0;
		for (const circle of all(shown, "details.circle")) {
			const whole = names(circle, "bdi");
			let any = false;
			for (const role of all(circle, ".role")) {
				const match = whole || names(role, "bdi");
				role.hidden = !match;
				if (match) { any = true; n++; }
			}
			circle.hidden = !any;
			if (text && any) circle.open = true;
		}
		byId("found").textContent = text && fill(say.match, {n});
	};

	// What the chosen organization withholds cannot be chosen.
	const bound = () => {
		const shown = block(), ends = byId("ends");
		if (!shown || !("shut" in shown.dataset)) return;
		const shut = shown.dataset.shut.split(" "), most = Number(shown.dataset.most);
		for (const one of all(form, "[name=grant], [name=personal]")) {
			one.disabled = shut.includes(one.name === "personal" ? "personal" : one.value);
			one.closest("label").classList.toggle("off", one.disabled);
			if (!one.disabled || !one.checked) continue;
			one.checked = false;
			if (one.name === "grant") form.querySelector("[name=grant][value=roles]").checked = true;
		}
		for (const one of ends.options) {
			one.disabled = one.value === "max" ? !most : most > 0 && !(one.value > 0 && one.value <= most);
		}
		if (ends.selectedOptions[0].disabled) ends.value = most ? "max" : "";
	};

	form.addEventListener("change", e => {
		if (e.target.name === "ends") return; // the stylesheet says it
		if (e.target.name === "organization") {
			bound();
			const offer = form.querySelector(".hot.only");
			if (offer && offer.querySelector(":checked") && !offer.classList.contains(e.target.id)) {
				form.querySelector("[name=grant][value=roles]").checked = true;
			}
			search();
		}
		follow();
	});
	form.addEventListener("click", e => {
		const button = e.target.closest("[name=bulk]");
		if (!button) return;
		e.preventDefault();
		const access = button.value.split(":").pop();
		for (const role of all(button.closest(".circle"), ".role")) {
			if (access === "none" || !role.hidden) {
				const one = role.querySelector("[value=" + access + "]");
				one.checked = one.checked || !one.disabled;
			}
		}
		follow();
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
	if ("live" in say) form.classList.add("live");
	addEventListener("pageshow", () => {
		sent = false;
		search();
		bound();
		count();
		if (form.querySelector(".choices :is(input:checked:not(:default), input:default:not(:checked))")) follow(); // as the browser remembers it
	});
})();
