package main

import (
	"crypto/rand"
	"io"
	"net"
	"net/http"
	"net/url"
	"time"

	"github.com/grantkeeper/grantkeeper/config"
	"github.com/grantkeeper/grantkeeper/fault"
	"github.com/grantkeeper/grantkeeper/gateway"
	"github.com/grantkeeper/grantkeeper/limit"
	"github.com/grantkeeper/grantkeeper/sample"
)

// A devService is the sample that dev has behind itself (decision V43). Each knows
// the other by URLs on loopback and two keys that are new at each start.
type devService struct {
	calls, gateways net.Listener // of the sample; of dev, for the sample
	key             string       // of the gateway
	sample          *sample.Server
	http            *http.Server
}

// newDevService opens the listeners, and has the house pass calls on to them.
func newDevService(c *config.Checked) (*devService, error) {
	s := &devService{key: rand.Text() + rand.Text()}
	var err error
	if s.calls, err = net.Listen("tcp", "127.0.0.1:0"); err != nil {
		return nil, fault.CannotOpen("", "cannot listen on loopback: %v", err)
	}
	if s.gateways, err = net.Listen("tcp", "127.0.0.1:0"); err != nil {
		s.calls.Close()
		return nil, fault.CannotOpen("", "cannot listen on loopback: %v", err)
	}
	at := "http://" + s.calls.Addr().String()
	if c.Upstream, err = url.Parse(at); err != nil {
		panic(err) // of our own address
	}
	c.MCPUpstream, c.PreviewURL = c.Upstream.JoinPath("mcp"), c.Upstream.JoinPath("grantkeeper", "preview")
	c.ServiceKey = []byte(rand.Text() + rand.Text())
	if c.Ruled == nil { // else --rules says
		if c.Ruled, err = config.CompileRules(nil, "service", nil); err != nil { // the sample reads the headers
			panic(err)
		}
	}
	c.Gateways = []gateway.Key{{Name: "sample", Secret: s.key, Scopes: []gateway.Scope{gateway.Directory, gateway.DirectoryRead}}}
	return s, nil
}

// start opens the sample, and plants the demo's items in a new one.
func (s *devService) start(h *house, o devOptions) (err error) {
	if s == nil {
		return nil
	}
	s.sample, err = sample.New(sample.Options{
		Key: h.ServiceKey, Gateways: "http://" + s.gateways.Addr().String(), GatewayKey: s.key,
		Service: h.Service.Name, Version: version, Folder: o.data, Now: h.store.Now, Log: h.log,
	})
	if err != nil {
		return fault.CannotOpen("", "items of the sample: %v", err)
	}
	if !o.empty && s.sample.Fresh() {
		if err := s.sample.Plant(sampleItems()); err != nil {
			return err
		}
	}
	s.http = &http.Server{Handler: s.sample, ReadHeaderTimeout: readTimeout, MaxHeaderBytes: maxHeader}
	go func() { _ = s.http.Serve(s.calls) }()
	return nil
}

// listener is dev's, for the sample; nil where there is none.
func (s *devService) listener() net.Listener {
	if s == nil {
		return nil
	}
	return s.gateways
}

// Close ends the sample. What it is asked by then is over: dev is behind it.
func (s *devService) Close() {
	if s == nil {
		return
	}
	if s.http != nil {
		s.http.Close()
	}
	if s.sample != nil {
		s.sample.Close()
	}
	s.calls.Close()
	s.gateways.Close()
}

// forSample is what dev's listener for the sample answers with, after public. A
// call would stand in the log twice and thrice: what the sample asks does not.
func (h *house) forSample() http.Handler {
	door := &gateway.Server{API: h.calls, Keys: func() []gateway.Key { return h.Gateways }, Base: h.base, Host: "127.0.0.1", Log: h.log}
	return &Gate{Next: door.Handler(), Address: limit.Proxies{}.ClientAddr, Log: h.log, JSON: io.Discard,
		Count: func(string, string, int, time.Duration) {}, Trusts: func(*http.Request) bool { return true }}
}
