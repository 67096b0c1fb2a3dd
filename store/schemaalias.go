package store

import "github.com/grantkeeper/grantkeeper/store/schema"

// What commands read and run of schemas, by their names here.
type (
	Schema         = schema.State
	SchemaError    = schema.Error
	Migration      = schema.Migration
	MigrateOptions = schema.Options
	Rekeyed        = schema.Rekeyed
)

// SchemaVersion is the newest schema that this release knows.
const SchemaVersion = schema.Version

// Migrations are those of this release, from 1 on.
func Migrations() []Migration { return schema.Migrations() }

// Pending are the migrations that a schema lacks, up to a version; 0 is all.
func Pending(all []Migration, has, to int) []Migration { return schema.Pending(all, has, to) }
