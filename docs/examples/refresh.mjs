// refreshOnce gives a fetch that sends each refresh token once. Requests that
// find the access token expired at the same moment share one answer.
export function refreshOnce(fetch = globalThis.fetch) {
	let sent, answer;
	return async (url, init) => {
		const form = init?.body;
		if (!(form instanceof URLSearchParams) || form.get("grant_type") !== "refresh_token") {
			return fetch(url, init);
		}
		if (sent !== form.get("refresh_token")) {
			const token = (sent = form.get("refresh_token"));
			answer = fetch(url, init);
			answer.then((r) => r.ok, () => false).then((ok) => {
				if (!ok && sent === token) sent = undefined; // it may be tried again
			});
		}
		return (await answer).clone();
	};
}
