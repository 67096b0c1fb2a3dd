package e2e

import "testing"

// The main job, once through: every later test stands on these steps.
func TestFromRegistrationToReuse(t *testing.T) {
	t.Parallel()
	h := start(t)
	f, first := h.connected("")
	if !h.works(first.access) {
		t.Error("the first access token does not work")
	}
	second := tokensOf(t, f.refresh(first.refresh))
	if !h.works(first.access) || !h.works(second.access) {
		t.Error("an access token does not live to its own expiry after a refresh")
	}
	if a := f.refresh(first.refresh); a.status != 400 || a.errorCode() != "invalid_grant" {
		t.Errorf("reuse: %s", a)
	}
	if h.works(first.access) || h.works(second.access) {
		t.Error("an access token works after the reuse")
	}
	if a := f.refresh(second.refresh); a.status != 400 || a.errorCode() != "invalid_grant" {
		t.Errorf("the current refresh token after the reuse: %s", a)
	}
}
