package grantkeeper_test

import "testing"

// lax are the readers of encoding/json: they take a member in another case for a
// field of a struct, the last of two, and repair what is not UTF-8.
var lax = map[string][]string{"encoding/json": {"Unmarshal", "NewDecoder"}}

// mayBeLax says of each place outside strictjson that reads JSON by encoding/json
// why it may.
var mayBeLax = reviewed{
	{"one value of what strictjson has taken apart: no names are read", `
		client/metadata.go:parseString client/metadata.go:parseStrings connect/wire.go:elements connect/wire.go:textOf dpop/dpop.go:textOf gateway/told.go:take
		probe/document.go:document.list probe/document.go:document.text
		journal/chain/verify.go:verifier.locate
		provider/claims.go:Provider.read provider/claims.go:said.seconds provider/claims.go:said.text
		identity/item.go:ReadItems mcp/ask.go:withoutProgress mcp/message.go:Message.readListen
		mcp/message.go:readMessages mcp/message.go:str rules/source.go:inJSON`},
	{"behind a walk of its own over all names, which allows small letters once, in UTF-8, eight levels and nothing behind", `
		operator/body.go:checkMembers operator/body.go:strict`},
	{"looks in what was refused, or taken, for the line of a fault", `
		operator/importing.go:decodeFault operator/importing.go:eachEntry operator/importing.go:unknownList`},
	{"what this server wrote itself: sealed, stored, embedded, or answered a moment ago", `
		signin/passkey.go:Server.holder orgadmin/rulesdraft.go:Server.openDraft
		page/sealed.go:Site.Open gateway/decisions.go:Server.judge`},
	{"a command, which shows what its own server answers and decides nothing", `
		cmd/grantkeeper/change.go:global.tell remote/remote.go:Server.Page
		cmd/grantkeeper/directorycmd.go:global.importDirectory remote/directory.go:WriteEntries
		remote/journal.go:Server.ExportActivity remote/journal.go:eventID cmd/grantkeeper/eventscmd.go:global.writeEvent
		cmd/grantkeeper/explain.go:runExplain remote/remote.go:Server.Do
		remote/remote.go:Server.Missing
		remote/remote.go:Server.refusal`},
	{"doctor, demo, drill and dev's client, which are clients and look at what they are answered", `
		demo/demo.go:answered.member demo/demo.go:answered.want
		devserver/client.go:devClient.do devserver/tools.go:devClient.callTool doctor/checks.go:asked.ask
		drill/ceiling.go:mayChange drill/drill.go:drilled.refresh`},
	{"what the operator's own service says of itself: a list of tools enforces nothing, and a tool is ruled by its name as it was called; rules that are drafted of it are completed by hand", `
		doctor/mcplist.go:Outside.list doctor/mcplist.go:ServerName rules/openapi.go:openAPI.item
		rules/openapi.go:ReadOpenAPI rules/openapi.go:openAPI.operations
		mcp/ask.go:Tools mcp/deeds.go:exchange.itemsIn mcp/tools.go:narrow mcp/tools.go:readAnswers
		mcp/tools.go:readTool mcp/tools.go:holds mcp/tools.go:rewrite`},
	{"the sample, a service of its own: behind the proxies, by a walk of its own over all names, or what this server answers it", `
		sample/body.go:field.set sample/body.go:membersOf sample/directory.go:readDirectory sample/directory.go:source.tell
		sample/document.go:describe sample/message.go:message.call sample/message.go:returns sample/message.go:split
		sample/refusal.go:tidy sample/shelf.go:shelf.replay`},
	{"strictjson itself, behind its walk", `strictjson/strictjson.go:Fields strictjson/strictjson.go:Into strictjson/strictjson.go:walk.name`},
}

// Each reader of JSON by encoding/json has been thought about; what they make of
// texts that can be read two ways, docs/threat-model.md has in a table.
func TestReadersOfJSONAreReviewed(t *testing.T) {
	mayBeLax.check(t, uses(t, lax, nil), "it takes names in another case, and the last of two. Read it by strictjson, or add it to mayBeLax with the reason why it need not")
}
