// Command notes is a small service behind Grantkeeper: it reads in signed
// headers who a call is for, and asks nobody.
package main

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
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
	calls := flag.Bool("calls", false, "ask that each call is signed with its body, as api.upstream does")
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
	service := signed(key, notes())
	if *calls {
		service = bound(key, service)
	}
	log.Fatal(http.Serve(l, service))
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

// bound lets through only what was signed for this very call.
func bound(key []byte, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, 64<<10))
		if err != nil {
			http.Error(w, "The body is too large.", http.StatusRequestEntityTooLarge)
			return
		}
		call := identity.Call{Method: r.Method, Target: r.RequestURI, Body: body}
		if _, err := identity.VerifyCall(r.Header, call, time.Now(), key); err != nil {
			http.Error(w, err.Error(), http.StatusForbidden)
			return
		}
		r.Body = io.NopCloser(bytes.NewReader(body))
		next.ServeHTTP(w, r)
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
