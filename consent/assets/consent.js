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
			.replace(/{(\w+)}/g, (whole, name) => name in values ? String(values[name]).replace(/\B(?=(\d{3})+$)/g, say.group) : whole);
	};

	// write says a message in which names stand, each isolated as in the page.
	const write = (to, text, names) => {
		const [before, after] = text.split(/{(?:names|organization)}/);
		to.append(before);
		if (after === undefined) return;
		names.slice(0, 3).forEach((name, i) => to.append(i ? say.between : "", name.cloneNode(true)));
		if (names.length > 3) to.append(" " + fill(say.more, {n: names.length - 3}));
		to.append(after);
	};
	const line = (li, pieces) => {
		const said = [];
		all(li, "[data-say]").forEach((to, i) => {
			const piece = pieces[i];
			to.hidden = !piece;
			to.textContent = piece && said.length ? say.between : "";
			if (piece) said.push(write(to, fill(to.dataset.say, {n: piece[0]}), piece[1] ?? []));
		});
		li.hidden = !said.length;
	};

	// What is shown is added up from numbers that the page brought: see sums.
	const count = () => {
		const shown = block();
		if (!shown) return;
		let [open, other, own] = shown.dataset.roles.split(",").map(Number), change = 0, closed = 0, chosen = 0;
		const acts = [], circles = [], mine = value("personal");
		for (const circle of all(shown, ".circle")) {
			const picked = all(circle, "input:checked:not([value=none])"), n = picked.length, some = circle.querySelector(".some");
			let left = n && +circle.dataset.private;
			if (some) some.textContent = fill(n ? say.some : say.roles, {n: all(circle, ".role").length, chosen: n});
			chosen += n;
			other -= left;
			for (const input of picked) {
				if (input.value === "read") continue;
				const role = input.closest(".role"), [a, b] = role.dataset.items.split(" ").map(Number);
				acts.push(role.querySelector("bdi"));
				change += a + b;
				open -= a;
				left -= b;
			}
			closed += left;
			if (left) circles.push(circle.querySelector("summary bdi, .hint bdi"));
		}
		const picked = chosen || mine, [acting, reading, nothing, none] = byId("allows").children;
		line(acting, [acts.length && [change, acts], mine && [own]]);
		line(reading, picked ? [closed && [closed, circles], open && [open]] : []);
		line(nothing, picked ? [!mine && own && [own], other && [other]] : []);
		none.hidden = !!picked;
		none.querySelector("[data-say]").hidden = !!picked;
		const bar = byId("bar");
		bar.textContent = "";
		write(bar, fill(chosen ? say.bar : mine ? say.personal : say.none, {n: all(shown, ".role").length, chosen}), [shown.querySelector("h3 bdi")]);
	};

	// Some time after the last change it is told once what holds now: what is
	// seen at once would be read out at every press.
	let telling;
	const tell = () => {
		clearTimeout(telling);
		telling = setTimeout(() => {
			byId("said").textContent = all(byId("gets"), ".lines > li").filter(e => e.getClientRects().length).slice(0, 2).map(e => {
				const copy = e.lastElementChild.cloneNode(true);
				all(copy, "details, [hidden]").forEach(e => e.remove());
				return copy.textContent;
			}).join(" ");
		}, 600);
	};
	const follow = () => {
		form.classList.toggle("moved", !!form.querySelector(".choices :is(input:checked:not(:default), input:default:not(:checked))"));
		count();
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

	form.addEventListener("change", e => {
		if (e.target.name === "organization") {
			const offer = form.querySelector(".hot.only");
			if (offer && offer.querySelector(":checked") && !offer.classList.contains(e.target.id)) {
				form.querySelector("[name=grant][value=roles]").checked = true;
			}
			search();
		}
		follow();
		tell();
	});
	form.addEventListener("click", e => {
		const button = e.target.closest("[name=bulk]");
		if (!button) return;
		e.preventDefault();
		const access = button.value.split(":").pop();
		for (const role of all(button.closest(".circle"), ".role")) {
			if (access === "none" || !role.hidden) role.querySelector("[value=" + access + "]").checked = true;
		}
		follow();
		tell();
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
	addEventListener("pageshow", () => { sent = false; search(); follow(); });
})();
