package client

import (
	"fmt"
	"slices"
	"strings"
)

// A drill is what an operator tries against a running server: the clients of
// the commands demo and drill. What happens to them is in the journal, and
// raises no alarm.
//
// An ID says so, because nobody chooses one but operators: those of clients
// that register themselves are made here, and have no full stop. And such a
// client can lead to no address that exists (RFC 6761 section 6.5), so that
// the alarms of no other client are lost by giving it such an ID.
const (
	DrillID       = "drill."
	DrillRedirect = "https://demo-client.example/callback"
)

// Drill reports whether an ID is that of a drill.
func Drill(id string) bool { return strings.HasPrefix(id, DrillID) }

func checkDrill(id string, redirectURIs []string) error {
	if Drill(id) && !slices.Equal(redirectURIs, []string{DrillRedirect}) {
		return fmt.Errorf("client_id: one that begins with %s is a drill's, and has %s as its only redirect URI", DrillID, DrillRedirect)
	}
	return nil
}
