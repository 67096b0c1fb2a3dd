package drill

import (
	"context"
	"encoding/json"
	"net/http"
	"net/url"
	"time"

	"github.com/grantkeeper/grantkeeper/demo"
	"github.com/grantkeeper/grantkeeper/fault"
	"github.com/grantkeeper/grantkeeper/policy"
	"github.com/grantkeeper/grantkeeper/remote"
)

// mayChange reports whether an answer of /me gives a role through which anything can be
// changed, and names the organization.
func mayChange(body []byte) (organization string, may bool) {
	var me struct {
		Organization struct {
			ID string `json:"id"`
		} `json:"organization"`
		Roles []struct {
			Access string `json:"access"`
		} `json:"roles"`
	}
	if json.Unmarshal(body, &me) != nil {
		return "", false
	}
	for _, role := range me.Roles {
		may = may || role.Access == "change"
	}
	return me.Organization.ID, may
}

// setReadOnly changes whether an organization lets apps read only, in the rules that hold
// now, whoever else saves some at the same time. It reports whether that was so before. It ends by
// itself, whatever becomes of ctx: a change that is cut off could be made after the one that takes
// it back.
func setReadOnly(ctx context.Context, server *remote.Server, organization string, on bool) (was bool, err error) {
	ctx = context.WithoutCancel(ctx)
	path := "/v1/organizations/" + url.PathEscape(organization) + "/policy"
	for range 3 {
		var seen struct{ Policy json.RawMessage }
		if err := server.Do(ctx, http.MethodGet, path, nil, nil, &seen); err != nil {
			return false, err
		}
		p, err := policy.Read(seen.Policy)
		if err != nil {
			return false, server.Stranger()
		}
		if p.Ceiling.ReadOnly == on {
			return on, nil
		}
		p.Ceiling.ReadOnly = on
		err = server.Do(ctx, http.MethodPut, path, nil, map[string]any{"policy": json.RawMessage(p.JSON()), "reason": "drill"}, &seen)
		if fault.CodeOf(err) != fault.State { // else somebody has saved others since
			return !on, err
		}
	}
	return !on, &fault.Error{Code: fault.State, What: "the rules of organization " + organization + " change all the time", Hint: "repeat it later"}
}

// lowerRound makes an approval, lowers the ceiling over it, follows what the nodes do,
// and lifts it again.
func (o Options) lowerRound(ctx context.Context, d *demo.Client, nodes []drilled, server *remote.Server) (round oneRound, err error) {
	body, err := o.begin(ctx, d, nodes)
	if err != nil {
		return round, err
	}
	organization, may := mayChange(body)
	if !may {
		return round, &fault.Error{Code: fault.Failed, What: d.Base + " gives the test approval nothing to change", Hint: "the person has to fill a role, and the organization to let apps change"}
	}
	begun := time.Now()
	was, err := setReadOnly(ctx, server, organization, true)
	acknowledged := time.Now()
	if was {
		return round, &fault.Error{Code: fault.State, What: "apps can only read in organization " + organization + " as it is", Hint: "drill with a person of another organization"}
	}
	if err == nil {
		round = o.followAll(ctx, d, nodes, acknowledged)
		round.Revoked = milliseconds(acknowledged.Sub(begun))
	}
	// After an error too: what was not answered may have been done.
	if _, unlifted := setReadOnly(ctx, server, organization, false); unlifted != nil {
		return round, &fault.Error{Code: fault.CodeOf(unlifted), What: "organization " + organization + " may be left at read only: " + unlifted.Error(),
			Hint: "see: grantkeeper organization policy show " + organization, Left: true}
	}
	if err != nil {
		return round, err
	}
	for i, n := range nodes { // what was lifted is given back
		if !n.givesBack(ctx, d, o.GiveUp) && round.Nodes[i].Fault == "" {
			round.Nodes[i].Fault = "it gave nothing back within " + o.GiveUp.String() + " after the ceiling was lifted"
		}
	}
	return round, nil
}

// givesBack waits until a node lets the approval change again.
func (n drilled) givesBack(ctx context.Context, d *demo.Client, within time.Duration) bool {
	for end := time.Now().Add(within); time.Now().Before(end) && ctx.Err() == nil; time.Sleep(10 * time.Millisecond) {
		if status, body, err := n.call(ctx, d.Access); err == nil && status == http.StatusOK {
			if _, may := mayChange(body); may {
				return true
			}
		}
	}
	return false
}
