// Passkeys: the browser makes or uses one when the person presses the button,
// and the form goes on with what it says. Without script, or without a
// passkey, codes remain.
'use strict';
for (const form of document.querySelectorAll('form[data-passkey]')) {
	const button = form.querySelector('[data-passkey-button]');
	const make = form.dataset.passkey === 'create';
	if (!window.PublicKeyCredential?.parseCreationOptionsFromJSON) continue;
	button.hidden = false;
	button.addEventListener('click', async () => {
		const options = JSON.parse(form.dataset.options);
		try {
			const made = make
				? await navigator.credentials.create({ publicKey: PublicKeyCredential.parseCreationOptionsFromJSON(options) })
				: await navigator.credentials.get({ publicKey: PublicKeyCredential.parseRequestOptionsFromJSON(options) });
			form.elements.passkey.value = JSON.stringify(made.toJSON());
		} catch {
			form.querySelector('[data-passkey-failed]').hidden = false; // the person said no, or there is none
			return;
		}
		if (form.elements.code) form.elements.code.required = false;
		form.requestSubmit();
	});
}
