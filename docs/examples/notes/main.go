// Command notes is a small service behind Grantkeeper: it reads in signed
// headers who a call is for, and asks nobody.
package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"log"
	"net"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/grantkeeper/grantkeeper/identity"
)

func main() {
	address := flag.String("listen", "127.0.0.1:9000", "address to listen on")
	keyFile := flag.String("key-file", "gateway.key", "file with the key that signs the headers")
	flag.Parse()
	text, err := os.ReadFile(*keyFile)
	if err != nil {
		log.Fatal(err)
	}
	l, err := net.Listen("tcp", *address)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("http://" + l.Addr().String())
	key := []byte(strings.TrimSpace(string(text)))
	log.Fatal(http.Serve(l, signed(key, notes())))
}

type caller struct{}

// signed lets nothing through that Grantkeeper has not signed, whoever can
// reach this service.
func signed(key []byte, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		who, err := identity.Verify(r.Header, time.Now(), key)
		if err != nil {
			http.Error(w, err.Error(), http.StatusForbidden)
			return
		}
		next.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), caller{}, who)))
	})
}

// notes belong to the role nordlys-treasurer: every member reads them, and who may act
// through the role changes them.
func notes() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /api/v5/notes", func(w http.ResponseWriter, r *http.Request) {
		json.NewEncoder(w).Encode(r.Context().Value(caller{}))
	})
	mux.HandleFunc("POST /api/v5/notes", func(w http.ResponseWriter, r *http.Request) {
		who := r.Context().Value(caller{}).(identity.Identity)
		if who.Acts("nordlys-treasurer") != "change" {
			http.Error(w, "The approval does not let changes be made through the treasurer's role.", http.StatusForbidden)
			return
		}
		w.WriteHeader(http.StatusCreated)
	})
	return mux
}
