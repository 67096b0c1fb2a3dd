package guard_test

import (
	"context"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"os"

	"github.com/grantkeeper/grantkeeper/api"
	"github.com/grantkeeper/grantkeeper/limit"
	"github.com/grantkeeper/grantkeeper/org"
	"github.com/grantkeeper/grantkeeper/store"
	"github.com/grantkeeper/grantkeeper/token"
)

// A service in the same process as the authorization server mounts the guard
// in front of its own handlers.
func Example() {
	db, ring := openStore()
	defer db.Close()

	guard := &api.Server{
		Store: db, Ring: ring, Service: "Svalinn",
		Base:  func(*http.Request) string { return "https://app.example" },
		Limit: limit.NewNames(limit.API),
	}
	notes := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		actor := api.ActorFrom(r.Context())
		answer, err := api.Ask(r.Context(), guard, actor, func(ctx context.Context, now api.Rights) (string, error) {
			note := org.Item{Organization: now.Organization, Circle: "general", Role: "treasurer"} // read it here
			return fmt.Sprintln(now.Person, "may change the note:", now.MayChange(note)), nil
		})
		if err != nil {
			guard.Fail(w, r, err) // 401 where the credential has ended meanwhile
			return
		}
		io.WriteString(w, answer)
	})
	mux := http.NewServeMux()
	mux.Handle("/api/v5/notes", guard.Guard(notes))

	server := httptest.NewServer(mux)
	defer server.Close()
	for _, key := range []string{"a-key-of-ada-for-scripts", "somebody-elses"} {
		r, err := http.NewRequest("GET", server.URL+"/api/v5/notes", nil)
		if err != nil {
			log.Fatal(err)
		}
		r.Header.Set("X-Auth-Token", key)
		answer, err := http.DefaultClient.Do(r)
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(answer.Status)
		if answer.StatusCode == http.StatusOK {
			io.Copy(os.Stdout, answer.Body)
		} else {
			fmt.Println(answer.Header.Get("WWW-Authenticate"))
		}
		answer.Body.Close()
	}
	// Output:
	// 200 OK
	// ada may change the note: true
	// 401 Unauthorized
	// Bearer realm="Svalinn", resource_metadata="https://app.example/.well-known/oauth-protected-resource/api/v5", error="invalid_token"
}

// openStore opens a database in memory with one person.
func openStore() (*store.Store, *token.Ring) {
	ring, err := token.NewRing("sv", 1, token.NewKey(1, [32]byte{1}))
	if err != nil {
		log.Fatal(err)
	}
	db, err := store.Open(context.Background(), store.Options{Ring: ring})
	if err != nil {
		log.Fatal(err)
	}
	err = db.AddDirectory(context.Background(), store.Directory{
		People:        []store.DirectoryPerson{{Person: org.Person{ID: "ada", Email: "ada@nordlys.example", Name: "Ada", Active: true}}},
		Organizations: []org.Organization{{ID: "nordlys", Name: "Nordlys", AIIntegration: true}},
		Members:       []store.DirectoryMember{{Person: "ada", Organization: "nordlys"}},
		Circles:       []org.Circle{{ID: "general", Organization: "nordlys", Name: "General"}},
		Roles:         []org.Role{{ID: "treasurer", Organization: "nordlys", Circle: "general", Name: "Treasurer"}},
		Fillers:       []store.Filler{{Role: "treasurer", Person: "ada"}},
		APIKeys:       []store.DirectoryAPIKey{{Key: "a-key-of-ada-for-scripts", Person: "ada", Organization: "nordlys", Name: "script"}},
	}, store.Act{Actor: "system"})
	if err != nil {
		log.Fatal(err)
	}
	return db, ring
}
