// Command notes is a small service behind Grantkeeper: it reads in signed
// headers who a call is for, and asks nobody.
package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"

	"github.com/grantkeeper/grantkeeper/identity/httpidentity"
)

func main() {
	address := flag.String("listen", "127.0.0.1:9000", "address to listen on")
	keyFile := flag.String("key-file", "gateway.key", "file with the key that signs the headers")
	forwardAuth := flag.Bool("forward-auth", false, "stand behind a proxy that asks: it signs no bodies")
	flag.Parse()
	key, err := httpidentity.KeyFile(*keyFile)
	if err != nil {
		log.Fatal(err)
	}
	l, err := net.Listen("tcp", *address)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("http://" + l.Addr().String())
	service := httpidentity.Handler(notes(), key)
	if *forwardAuth {
		service = httpidentity.Verifier{Keys: [][]byte{key}, Unsigned: true}.Handler(notes())
	}
	log.Fatal(http.Serve(l, service))
}

// notes belong to the role nordlys-treasurer: every member reads them, and who may act
// through the role changes them.
func notes() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("POST /api/v5/notes", func(w http.ResponseWriter, r *http.Request) {
		if httpidentity.From(r.Context()).Acts("nordlys-treasurer") != "change" {
			http.Error(w, "The approval does not let changes be made through the treasurer's role.", http.StatusForbidden)
			return
		}
		w.WriteHeader(http.StatusCreated)
		io.Copy(w, r.Body)
	})
	read := func(w http.ResponseWriter, r *http.Request) {
		json.NewEncoder(w).Encode(httpidentity.From(r.Context()))
	}
	mux.HandleFunc("GET /api/v5/notes", read)
	mux.HandleFunc("GET /api/v5/notes/{rest...}", read)
	return mux
}
