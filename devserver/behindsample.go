package devserver

import (
	"crypto/rand"
	"net"
	"net/http"
	"net/url"
	"time"

	"github.com/grantkeeper/grantkeeper/config"
	"github.com/grantkeeper/grantkeeper/fault"
	"github.com/grantkeeper/grantkeeper/gateway"
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
func (s *devService) start(d *dev, now func() time.Time) (err error) {
	if s == nil {
		return nil
	}
	s.sample, err = sample.New(sample.Options{
		Key: d.checked.ServiceKey, Gateways: "http://" + s.gateways.Addr().String(), GatewayKey: s.key,
		Service: d.checked.Service.Name, Version: d.options.Version, Folder: d.options.Data, Now: now, Log: d.log,
	})
	if err != nil {
		return fault.CannotOpen("", "items of the sample: %v", err)
	}
	if !d.options.Empty && s.sample.Fresh() {
		if err := s.sample.Plant(sampleItems()); err != nil {
			return err
		}
	}
	s.http = &http.Server{Handler: s.sample, ReadHeaderTimeout: 20 * time.Second, MaxHeaderBytes: 28 << 10}
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
