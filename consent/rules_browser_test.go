package consent

import (
	"fmt"
	"testing"

	"github.com/chromedp/chromedp"

	"github.com/grantkeeper/grantkeeper/grantset"
	"github.com/grantkeeper/grantkeeper/policy"
)

// What an organization withholds follows the choice of the organization, with script
// and without (decision A14).
func TestRulesInBrowser(t *testing.T) {
	t.Parallel()
	c := newChrome(t)
	c.rulesFor("nordlys", "person:ada", policy.Policy{Ceiling: grantset.Ceiling{Widest: grantset.Roles, NoPersonal: true}, MaxDays: 14})
	c.tab(t).signInAs("ada@nordlys.example")
	seen := func(css string) string {
		return fmt.Sprintf("[...document.querySelectorAll(%q)].some(e => e.getClientRects().length)", css)
	}
	const reason, limit, bar = "[value=everything] ~ span .reason", "#ends-why .reason", ".act .until"

	t.Run("with script", func(t *testing.T) {
		b := c.tab(t)
		check := b.quiet()
		b.open(c.authorizeURL())
		b.click("[name=organization][value=fjell]")
		b.want("!document.querySelector('[name=grant]:disabled, [name=personal]:disabled') && document.getElementById('ends').value === ''")
		b.want("!" + seen(reason) + " && !" + seen(limit) + " && document.querySelector('#ends [value=max]').disabled")
		b.click("[name=grant][value=everything]")
		b.click("[name=organization][value=nordlys]")
		b.want("document.querySelector('[value=everything]').disabled && document.querySelector('[name=personal]').disabled && document.querySelector('[value=roles]').checked")
		b.want("document.getElementById('ends').value === 'max' && document.querySelector('#ends [value=\"\"]').disabled && document.querySelector('#ends [value=\"30\"]').disabled")
		b.want(seen(reason) + " && " + seen(limit) + " && " + seen(".until-max") + " && !" + seen(".until-0"))
		b.click("[name=organization][value=fjell]")
		b.want("!document.querySelector('[value=everything]').disabled && document.getElementById('ends').value === ''")
		b.want("!" + seen(".until-max") + " && " + seen(".until-0"))
		check()
	})
	t.Run("without script", func(t *testing.T) {
		b := c.tab(t)
		b.withoutScript()
		b.open(c.authorizeURL())
		b.click("[name=organization][value=nordlys]")
		b.want(seen(reason) + " && " + seen(limit) + " && !document.querySelector('[value=everything]').disabled && " + seen(bar))
		b.click("[name=grant][value=everything]")
		b.click("[value=approve]")
		b.run(chromedp.WaitVisible(chromedp.ID("fault")))
		b.want("document.querySelector('#fault').textContent.includes('apps get selected roles only')")
	})
	t.Run("an admin is asked", func(t *testing.T) {
		c.rulesFor("fjell", "person:ada", policy.Policy{Known: policy.Ask}) // the client of these tests is set up
		b := c.tab(t)
		b.withoutScript()
		b.open(c.authorizeURL())
		b.want("!" + seen(".goon"))
		b.click("[name=organization][value=fjell]")
		b.want(seen(".goon") + " && !" + seen(".approve") + " && !" + seen(".then"))
		b.click(".goon")
		b.run(chromedp.WaitVisible(chromedp.CSS("#message, [value=cancel]")))
		b.want("!!document.querySelector('[value=cancel]')")
	})
}
