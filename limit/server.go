package limit

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/logging"
	"github.com/redis/go-redis/v9/maintnotifications"
)

// A Server is where the counters are that several nodes have in common: Valkey,
// or Redis from 5 on.
type Server struct {
	address  string      // host:port
	tls      *tls.Config // nil is none
	greeting [][]any     // commands that begin a connection: who asks, and in which database
}

// errServer does not repeat the address: it may hold a password.
var errServer = errors.New("not an address such as redis://user:password@host:6379/0")

// ParseServer reads the setting limiter.url: redis: or valkey:, rediss: or
// valkeys: for TLS, and at the end perhaps the number of a database.
func ParseServer(address string) (*Server, error) {
	u, err := url.Parse(address)
	if err != nil || u.Hostname() == "" || u.RawQuery != "" || u.ForceQuery || u.Fragment != "" {
		return nil, errServer
	}
	port, database := u.Port(), strings.TrimPrefix(u.Path, "/")
	if port == "" {
		port = "6379"
	}
	if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 {
		return nil, errServer
	}
	s := &Server{address: net.JoinHostPort(u.Hostname(), port)}
	switch u.Scheme {
	case "redis", "valkey":
	case "rediss", "valkeys":
		s.tls = &tls.Config{ServerName: u.Hostname(), MinVersion: tls.VersionTLS12}
	default:
		return nil, errServer
	}
	password, _ := u.User.Password()
	if name := u.User.Username(); name != "" {
		s.greeting = append(s.greeting, []any{"AUTH", name, password})
	} else if password != "" {
		s.greeting = append(s.greeting, []any{"AUTH", password})
	}
	if database != "" {
		n, err := strconv.ParseUint(database, 10, 31)
		if err != nil {
			return nil, errServer
		}
		s.greeting = append(s.greeting, []any{"SELECT", n})
	}
	return s, nil
}

// The client's own lines would go to the standard error; what they say is also in
// the errors that it returns.
func init() { logging.Disable() }

// client makes a client that has no connection yet. Each command is bounded by the
// deadline of its context, the wait for a free connection included.
func (s *Server) client() *redis.Client {
	return redis.NewClient(&redis.Options{
		Addr: s.address, TLSConfig: s.tls, OnConnect: s.greet,
		Protocol: 2, DisableIdentity: true, // nothing that Redis 5 or an ACL could refuse
		MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled},
		ContextTimeoutEnabled:    true,
		DialTimeout:              time.Second, DialerRetries: 1,
		// A pooled connection may have ended unnoticed: one more attempt, on another.
		MaxRetries: 1, MinRetryBackoff: -1, ConnMaxIdleTime: time.Minute,
		PoolSize: 32, PipelinePoolSize: -1, ReadBufferSize: 4096, WriteBufferSize: 4096,
	})
}

// greet sends the greeting on a new connection.
func (s *Server) greet(ctx context.Context, c *redis.Conn) error {
	var refused redis.Error
	for _, command := range s.greeting {
		err := c.Do(ctx, command...).Err()
		if errors.As(err, &refused) { // a server may repeat the arguments, the password among them
			code, _, _ := strings.Cut(refused.Error(), " ")
			return fmt.Errorf("%v: %s", command[0], code)
		} else if err != nil {
			return err
		}
	}
	// For CLIENT LIST. A user whose ACL forbids it can do without.
	if err := c.ClientSetName(ctx, "grantkeeper").Err(); !errors.As(err, &refused) {
		return err
	}
	return nil
}
