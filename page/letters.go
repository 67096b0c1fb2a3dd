package page

// DecidedLetter tells a person what became of their request that an admin allow an
// app. at is the address of the app's host. The client's name is not in it, nor what
// the admin wrote: this is no page that says whose words they are.
func DecidedLetter(language, service, organization, at string, allowed bool) Letter {
	w := wordsOfLetters(language, service)
	subject, what := w.Say("asking.mail.declined"), w.Say("asking.mail.maynot", "organization", organization)
	if allowed {
		subject, what = w.Say("asking.mail.allowed"), w.Say("asking.mail.may", "organization", organization)
	}
	return Letter{subject.String(), letterText(what.String(), "", w.Say("asking.mail.where").String(), at)}
}
