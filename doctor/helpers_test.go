package doctor

import (
	"testing"

	"github.com/grantkeeper/grantkeeper/config"
	"github.com/grantkeeper/grantkeeper/config/configtest"
	"github.com/grantkeeper/grantkeeper/server/servertest"
)

var certificate = servertest.Certificate

const gatewayKey = configtest.GatewayKey

// good is a configuration that passes, in folders of the test.
func good(t *testing.T) config.Loaded {
	t.Helper()
	l, err := config.Load(configtest.File(t), nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	return l
}
