package main

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"net/netip"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/grantkeeper/grantkeeper/config"
	"github.com/grantkeeper/grantkeeper/fault"
	"github.com/grantkeeper/grantkeeper/store"
)

// hangUp gives the signal that asks to reread the configuration.
func hangUp() <-chan os.Signal {
	ch := make(chan os.Signal, 1)
	signal.Notify(ch, syscall.SIGHUP)
	return ch
}

func levelVar(l slog.Level) *slog.LevelVar {
	v := new(slog.LevelVar)
	v.Set(l)
	return v
}

// present is the configuration as it was read last.
func (h *house) present() *config.Checked {
	if c := h.reread.Load(); c != nil {
		return c
	}
	return &h.Checked
}

// serviceKey signs what the service is told. An upstream stays until a restart, and
// so does its key where the configuration has none any more.
func (h *house) serviceKey() []byte {
	if key := h.present().ServiceKey; key != nil {
		return key
	}
	return h.ServiceKey
}

func (h *house) base(host string) string { return h.present().Hosts.Base(host) }

// shownHosts are the base URLs as operators are shown them.
func (h *house) shownHosts() []string {
	if h.dev != nil {
		return []string{"http://" + h.dev.address}
	}
	return h.present().Hosts.List()
}

func (h *house) address(r *http.Request) netip.Addr {
	p := h.present().Proxies
	if p.Unsure(r) {
		h.unsure.Do(func() {
			h.log.Warn("a trusted proxy writes Forwarded and not X-Forwarded-For, which a client could add: say so", "setting", `http.forwarded_header = "Forwarded"`)
		})
	}
	return p.ClientAddr(r)
}

// rereadWith takes what read gives, or stays with what there is when that is
// not valid, and says which.
func (h *house) rereadWith(ctx context.Context, read func() (config.Checked, string, error)) {
	c, file, err := read()
	if err == nil {
		err = h.take(ctx, c)
	}
	if err != nil {
		attributes := []any{"err", err.Error()}
		var e *fault.Error
		if errors.As(err, &e) && e.Hint != "" {
			attributes = append(attributes, "hint", e.Hint)
		}
		h.log.Error("the configuration was not reread: what was in force stays so", attributes...)
		return
	}
	h.log.Info("the configuration was reread", "config", file, "base_urls", c.Hosts.List(), "level", c.Log.Level)
	if waiting := config.NeedRestart(&h.Checked, &c); len(waiting) > 0 {
		h.log.Warn("some settings count only after a restart", "settings", strings.Join(waiting, ", "))
	}
}

// take puts a valid configuration in force. What can be refused comes first.
func (h *house) take(ctx context.Context, c config.Checked) error {
	if (c.TLS == nil) != (h.TLS == nil) {
		return fault.BadConfig("restart it", "http: TLS of one's own cannot be switched on or off while it runs")
	}
	act := store.Act{Actor: "system", Reason: "configuration"}
	if _, err := h.store.AddKeys(ctx, c.Ring.Keys(), act); err != nil {
		return fault.BadConfig("use the key file that this database was made with", "secret key: %v", err)
	}
	if err := h.store.SyncPreregistered(ctx, c.Preregistered, act); err != nil {
		back := h.store.SyncPreregistered(ctx, h.present().Preregistered, act) // as it may have changed some
		return fault.BadConfig("take another id", "clients: %v", errors.Join(err, back))
	}
	for _, l := range h.networked {
		l.SetNetworks(c.Networks)
	}
	h.page.Rebrand(c.Brand)
	h.level.Set(c.Level)
	h.reread.Store(&c)
	return nil
}
