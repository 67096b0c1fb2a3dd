package store

import (
	"context"

	"github.com/grantkeeper/grantkeeper/store/postgres"
	"github.com/grantkeeper/grantkeeper/store/sqlite"
)

// Migrate takes a schema forward, each migration in a transaction of its own.
// It gives the versions that it came from and to, even when a migration fails.
// Of a SQLite file no server may work on it meanwhile: ErrInUse. On PostgreSQL
// nodes may, as far as their release works beside the migration: ErrNodes.
func Migrate(ctx context.Context, o MigrateOptions) (from, to int, err error) {
	if o.Migrations == nil {
		o.Migrations = Migrations()
	}
	if o.URL != "" {
		return postgres.Migrate(ctx, o)
	}
	return sqlite.Migrate(ctx, o)
}
