package server

import (
	"context"
	"errors"
	"net/http"
	"net/netip"
	"reflect"
	"strings"

	"github.com/grantkeeper/grantkeeper/config"
	"github.com/grantkeeper/grantkeeper/fault"
	"github.com/grantkeeper/grantkeeper/store"
)

// present is the configuration as it was read last.
func (s *Server) present() *config.Checked {
	if c := s.reread.Load(); c != nil {
		return c
	}
	return &s.settings
}

// serviceKey signs what the service is told. An upstream stays until a restart, and
// so does its key where the configuration has none any more.
func (s *Server) serviceKey() []byte {
	if key := s.present().ServiceKey; key != nil {
		return key
	}
	return s.ServiceKey
}

func (s *Server) base(host string) string { return s.present().Hosts.Base(host) }

// ownHosts are the names of this server's hosts, without ports.
func (s *Server) ownHosts() []string { return s.present().Hosts.Names() }

// firstHost is that of the first base URL, with its port.
func (s *Server) firstHost() string {
	_, host, _ := strings.Cut(s.present().Hosts.List()[0], "://")
	return host
}

// shownHosts are the base URLs as operators are shown them.
func (s *Server) shownHosts() []string {
	if s.options.Dev != nil {
		return []string{"http://" + s.PublicAddr().String()}
	}
	return s.present().Hosts.List()
}

func (s *Server) address(r *http.Request) netip.Addr {
	p := s.present().Proxies
	if p.Unsure(r) {
		s.unsure.Do(func() {
			s.log.Warn("a trusted proxy writes Forwarded and not X-Forwarded-For, which a client could add: say so", "setting", `http.forwarded_header = "Forwarded"`)
		})
	}
	return p.ClientAddr(r)
}

// Reread takes what read gives, or stays with what there is when that is
// not valid, and says which.
func (s *Server) Reread(ctx context.Context, read func() (config.Checked, string, error)) {
	c, file, err := read()
	if err == nil {
		err = s.take(ctx, c)
	}
	if err != nil {
		attributes := []any{"err", err.Error()}
		if e, ok := errors.AsType[*fault.Error](err); ok && e.Hint != "" {
			attributes = append(attributes, "hint", e.Hint)
		}
		s.log.Error("the configuration was not reread: what was in force stays so", attributes...)
		return
	}
	s.log.Info("the configuration was reread", "config", file, "base_urls", c.Hosts.List(), "level", c.Log.Level)
	if waiting := config.NeedRestart(&s.settings, &c); len(waiting) > 0 {
		s.log.Warn("some settings count only after a restart", "settings", strings.Join(waiting, ", "))
	}
}

// take puts a valid configuration in force. What can be refused comes first.
func (s *Server) take(ctx context.Context, c config.Checked) error {
	if (c.TLS == nil) != (s.TLS == nil) {
		return fault.BadConfig("restart it", "http: TLS of one's own cannot be switched on or off while it runs")
	}
	if err := s.store.PreregisteredConflict(c.Preregistered); err != nil {
		return s.refusedClients(err)
	}
	act := store.Act{Actor: "system", Reason: "configuration"}
	if _, err := s.store.AddKeys(ctx, c.Ring.Keys(), act); errors.Is(err, store.ErrUnavailable) {
		return s.unavailable("secret key: %v", err)
	} else if err != nil {
		return fault.BadConfig("use the key file that this database was made with", "secret key: %v", err)
	}
	if err := s.store.SyncPreregistered(ctx, c.Preregistered, act); err != nil {
		back := s.store.SyncPreregistered(ctx, s.present().Preregistered, act) // as it may have changed some
		return s.refusedClients(errors.Join(err, back))
	}
	for _, l := range s.networked {
		l.SetNetworks(c.Networks)
	}
	s.page.Rebrand(c.Brand)
	if s.options.Level != nil {
		s.options.Level.Set(c.Level)
	}
	before := s.present()
	s.reread.Store(&c)
	s.seen.trustAnew()
	if !reflect.DeepEqual(before.Rules, c.Rules) || before.Service.Unlisted != c.Service.Unlisted {
		s.tellUnnamed() // what nobody was told of; the new rules may name it
		s.unnamed.Forget()
	}
	return nil
}

// desktop says whether programs on people's own computers may connect (decision A15).
func (s *Server) desktop() bool { return s.present().Clients.Desktop }
