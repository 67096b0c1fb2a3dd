package api

import (
	"context"
	"encoding/json"
	"net/http"

	"github.com/grantkeeper/grantkeeper/rules"
)

// RuledBy are the rules that hold now; nil is none.
func (s *Server) RuledBy() *rules.Rules {
	if s.Rules == nil {
		return nil
	}
	return s.Rules()
}

// RulesFor are the rules that hold now for calls by a right; nil is none. Where the
// organization lets apps read only, there are rules that say so (decision V65).
func (s *Server) RulesFor(a Rights) *rules.Rules {
	by := s.RuledBy()
	if by == nil && a.ReadOnly() {
		return rules.ServiceDecides
	}
	return by
}

// Ruled decides by the rules whether a call may go to the service behind, and
// counts it where no rule names it. Without rules it may.
func (s *Server) Ruled(ctx context.Context, a Rights, c rules.Call) (rules.Decision, error) {
	by := s.RulesFor(a)
	if by == nil {
		return rules.Decision{Allowed: true, Rule: -1, Reason: rules.Unlisted}, nil
	}
	find, failed := s.Store.FindRoles(ctx, a.Organization)
	d := by.Decide(a.Authority, find, c)
	if err := failed(); err != nil {
		return rules.Decision{}, err
	}
	if s.Unnamed != nil {
		s.Unnamed.Note(c, d)
	}
	return d, nil
}

// Denial is the answer to a call that the rules deny (decision V27).
type Denial struct {
	Code        string       `json:"error"` // forbidden
	Description string       `json:"error_description"`
	Reason      rules.Reason `json:"reason"`
	Rule        *int         `json:"rule,omitempty"` // as configured, from 0
	Role        string       `json:"role,omitempty"` // ID
	RoleName    string       `json:"role_name,omitempty"`
	Needs       string       `json:"needs,omitempty"`
	Has         string       `json:"has,omitempty"`
	Edit        string       `json:"edit,omitempty"` // where the person can allow it
	Reference   string       `json:"reference,omitempty"`
}

// Denied is what is told of a denial to whom was asked at base.
func Denied(a Rights, d rules.Decision, base string) Denial {
	of := ""
	if a.Client != "" {
		of = a.Approval.String()
	}
	d.Organization = a.organizationName
	edit := d.Edit(base, a.Organization, of)
	told := Denial{Code: "forbidden", Description: d.Says(edit), Reason: d.Reason, Role: d.Role, RoleName: d.RoleName, Needs: d.Needs, Has: d.Has, Edit: edit}
	if d.Rule >= 0 {
		told.Rule = &d.Rule
	}
	return told
}

// Deny answers a call that the rules deny: 403, and never a challenge.
func (s *Server) Deny(w http.ResponseWriter, told Denial) {
	s.TellFault(w, told.Code)
	h := w.Header()
	told.Reference = h.Get("X-Request-Id")
	body, err := json.Marshal(told)
	if err != nil {
		panic(err) // our own struct
	}
	h["Access-Control-Expose-Headers"], h["Content-Type"] = exposed, jsonType
	w.WriteHeader(http.StatusForbidden)
	w.Write(body)
}
