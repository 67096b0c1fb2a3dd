package store

import "github.com/grantkeeper/grantkeeper/directory"

// What the doors hand in and get back of directories, by their names here.
type (
	Directory       = directory.Directory
	DirectoryPerson = directory.Person
	DirectoryMember = directory.Member
	DirectoryAPIKey = directory.APIKey
	MembershipID    = directory.MembershipID
	Unsaid          = directory.Unsaid
	Filler          = directory.Filler
	Import          = directory.Import
	Imported        = directory.Imported
	Counts          = directory.Counts
	Change          = directory.Change
	Misplaced       = directory.Misplaced
	DirectoryEvent  = directory.Event
	Picture         = directory.Picture
	MemberRow       = directory.MemberRow
	RoleRow         = directory.RoleRow
)
