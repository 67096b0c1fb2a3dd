package page

import (
	"strings"
	"time"
)

// Languages are the tags of those that pages and letters are written in
// (BCP 47), English first.
func Languages() (tags []string) {
	for _, t := range tongues {
		tags = append(tags, t.Tag)
	}
	return tags
}

// A Letter is a mail in the words of the pages.
type Letter struct{ Subject, Text string }

// ReuseLetter tells a person that a connection of theirs has ended because an
// old key came back. apps is the address of Connected apps. The client's name
// is not in it: clients choose theirs, and this is no page that says so.
func ReuseLetter(language, service, apps string) Letter {
	w := wordsOfLetters(language, service)
	return Letter{w.Say("mail.reuse.subject").String(), letterText(w.Say("mail.reuse.what").String(), "",
		w.Say("mail.reuse.where").String(), apps, "", w.Say("mail.reuse.do").String())}
}

// FactorsLetter tells a person that somebody who has their password tries second
// factors. account is the address of the account's page.
func FactorsLetter(language, service, account string) Letter {
	w := wordsOfLetters(language, service)
	return Letter{w.Say("mail.factors.subject").String(), letterText(w.Say("mail.factors.what").String(), "",
		w.Say("mail.factors.do").String(), account)}
}

// ResetLetter brings the link by which a person sets a new password.
func ResetLetter(language, service, link string, lifetime time.Duration) Letter {
	w := wordsOfLetters(language, service)
	return Letter{w.Say("mail.reset.subject").String(), letterText(w.Say("mail.reset.what").String(), link, "",
		w.Say("mail.reset.once", "n", int(lifetime.Hours())).String())}
}

// ElsewhereLetter is for somebody who asked for a new password and has none
// here, because they sign in elsewhere. signIn is the address of the page.
func ElsewhereLetter(language, service, signIn string) Letter {
	w := wordsOfLetters(language, service)
	return Letter{w.Say("mail.elsewhere.subject").String(), letterText(w.Say("mail.elsewhere.what").String(), signIn, "",
		w.Say("mail.elsewhere.do").String())}
}

// EndsLetter tells a person that the access of an app ends in three days. apps is the
// address of Connected apps.
func EndsLetter(language, service, apps string) Letter {
	w := wordsOfLetters(language, service)
	return Letter{w.Say("mail.ends.subject").String(), letterText(w.Say("mail.ends.what").String(), "",
		w.Say("mail.ends.where").String(), apps, "", w.Say("mail.ends.rest").String())}
}

// RequestLetter tells an admin that a member asks to connect an app. requests is the
// address of the page that says which and who: the app's name is its own claim, and a
// letter shows nothing of what makes it one.
func RequestLetter(language, service, organization, requests string) Letter {
	w := wordsOfLetters(language, service)
	return Letter{w.Say("requests.mail.subject").String(), letterText(w.Say("requests.mail.what", "organization", organization).String(), "",
		w.Say("requests.mail.where").String(), requests, "", w.Say("requests.mail.rest").String())}
}

// ReviewLetter tells an admin that connections in an organization, whose rules have them
// reviewed every so many days, are due. integration is the page that has them.
func ReviewLetter(language, service, organization string, days int, integration string) Letter {
	w := wordsOfLetters(language, service)
	return Letter{w.Say("requests.due.subject").String(), letterText(w.Say("requests.due.what", "organization", organization, "days", days).String(), "",
		w.Say("requests.due.where").String(), integration, "", w.Say("requests.due.rest").String())}
}

// wordsOfLetters falls back to English.
func wordsOfLetters(language, service string) *Words {
	for _, t := range tongues {
		if t.Tag == language {
			return newWords(t, service, assets)
		}
	}
	return newWords(tongues[0], service, assets)
}

// lineLength is where lines of letters are broken, as RFC 5322 section 2.1.1
// has it: characters.
const lineLength = 78

// letterText breaks lines between words. A word that is longer, such as an
// address, stays whole.
func letterText(lines ...string) string {
	var b strings.Builder
	for _, line := range lines {
		length := 0
		for i, word := range strings.Split(line, " ") {
			n := len([]rune(word))
			switch {
			case i == 0:
			case length+1+n > lineLength:
				b.WriteByte('\n')
				length = 0
			default:
				b.WriteByte(' ')
				length++
			}
			b.WriteString(word)
			length += n
		}
		b.WriteByte('\n')
	}
	return b.String()
}
