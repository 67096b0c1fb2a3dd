package config

import (
	"testing"

	"github.com/grantkeeper/grantkeeper/config/configtest"
)

var (
	write   = configtest.Write
	refused = configtest.Refused
)

const gatewayKey = configtest.GatewayKey

// good is a configuration that passes, in folders of the test.
func good(t *testing.T) Loaded {
	t.Helper()
	l, err := Load(configtest.File(t), nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	return l
}
