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

// lower sets the ceiling of the organization to read only, and gives what lifts it again
// and when it was acknowledged.
func lower(ctx context.Context, server *remote.Server, organization string) (lift func() error, begun, acknowledged time.Time, err error) {
	path := "/v1/organizations/" + url.PathEscape(organization) + "/policy"
	var seen struct{ Policy json.RawMessage }
	if err := server.Do(ctx, http.MethodGet, path, nil, nil, &seen); err != nil {
		return nil, begun, acknowledged, err
	}
	before, err := policy.Read(seen.Policy)
	if err != nil {
		return nil, begun, acknowledged, server.Stranger()
	}
	if before.Ceiling.ReadOnly {
		return nil, begun, acknowledged, &fault.Error{Code: fault.State, What: "apps can only read in organization " + organization + " as it is", Hint: "drill with a person of another organization"}
	}
	version := before.Version
	save := func(ctx context.Context, p policy.Policy) error {
		p.Version = version
		if err := server.Do(ctx, http.MethodPut, path, nil, map[string]any{"policy": json.RawMessage(p.JSON()), "reason": "drill"}, &seen); err != nil {
			return err
		}
		saved, err := policy.Read(seen.Policy)
		version = saved.Version
		return err
	}
	lowered := before
	lowered.Ceiling.ReadOnly = true
	begun = time.Now()
	err = save(ctx, lowered)
	acknowledged = time.Now()
	return func() error { return save(context.WithoutCancel(ctx), before) }, begun, acknowledged, err
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
	lift, begun, acknowledged, err := lower(ctx, server, organization)
	if err != nil {
		return round, err
	}
	round = o.followAll(ctx, d, nodes, acknowledged)
	round.Revoked = milliseconds(acknowledged.Sub(begun))
	if err := lift(); err != nil {
		return round, &fault.Error{Code: fault.CodeOf(err), What: "the ceiling of organization " + organization + " stays at read only: " + err.Error(),
			Hint: "lift it: grantkeeper organization policy set " + organization}
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
