package grantkeeper_test

import (
	"regexp"
	"testing"
)

// folding are the functions after which two different texts may be alike, and
// texts that are read may not be those that were sent.
var folding = map[string][]string{
	"strings": {"ToLower", "ToUpper", "ToTitle", "Title", "EqualFold", "TrimSpace", "Trim", "TrimLeft", "TrimRight", "TrimFunc",
		"Fields", "FieldsSeq", "FieldsFunc", "FieldsFuncSeq", "Map", "ToValidUTF8", "ReplaceAll", "NewReplacer"},
	"bytes":                          {"ToLower", "ToUpper", "EqualFold", "TrimSpace", "Trim", "TrimFunc", "Fields", "ToValidUTF8", "ReplaceAll"},
	"unicode":                        {"ToLower", "ToUpper", "ToTitle", "SimpleFold", "To"},
	"path":                           {"Clean", "Join"},
	"path/filepath":                  {"Clean"},
	"net/url":                        {"Parse", "ParseRequestURI", "PathUnescape", "QueryUnescape", "JoinPath"},
	"net/http":                       {"CanonicalHeaderKey"},
	"net/textproto":                  {"CanonicalMIMEHeaderKey", "TrimString"},
	"mime":                           {"ParseMediaType"},
	"golang.org/x/text/cases":        {"Fold", "Lower", "Upper", "Title"},
	"golang.org/x/text/unicode/norm": {"NFC", "NFD", "NFKC", "NFKD"},
	"golang.org/x/net/idna":          {"Lookup", "ToASCII", "ToUnicode", "New"},
	module + "/org":                  {"EmailKey", "LowerASCII", "VouchedEmail"},
	"":                               {"JoinPath", "ResolveReference", "Unmap", "Masked"}, // of url.URL and netip
}

var foldingSQL = regexp.MustCompile(`\b(?:LOWER|UPPER|TRIM|I?LIKE|NOCASE|CITEXT)\b`)

// mayFold says of each place why two texts may be alike there, or that nothing is
// compared. What finds a person, a client, an approval or a right is compared byte
// for byte; emails by org.EmailKey, which lowers A-Z alone.
var mayFold = reviewed{
	// Who is meant, and where an answer goes.
	{"an email finds its person by org.EmailKey, which lowers A-Z alone (decision S3)", `
		signin/failures.go:attemptKeys signin/forgot.go:Server.forgotTooOften store/accounts/password.go:Accounts.Password
		store/engine/handle.go:Handle.Person store/accounts/identity.go:Accounts.Vouched facts/facts.go:EmailKey
		operator/session.go:Server.SignIn operator/named.go:Named.bound operator/session.go:Server.FromElsewhere
		store/accounts/password.go:Accounts.SignIn store/schema/rekeyed.go:Migration.Rekeyed`},
	{"what somebody typed or a list brought is refused when nothing of it is seen, and kept as it was", `
		config/check.go:CheckServiceName config/signin.go:plainName
		page/branding.go:Branding.Check org/text.go:CheckName
		page/nouns.go:checkNoun sample/body.go:checkLine`},
	{"two operators are told apart more strictly by it: their names and emails differ in more than case (decision O6)", `config/operators.go:Checked.checkOperators operator/named.go:Server.someNamed`},
	{"hosts are names of DNS, checked to be ASCII, and alike in any case (RFC 9110 section 4.2.3); where one is looked up among ours, ours is the answer", `
		client/redirect.go:checkHost client/resource.go:normalOrigin config/hosts.go:LoopbackListen
		config/hosts.go:Hosts.Base
		config/hosts.go:Hosts.devBase config/hosts.go:ParseBase
		config/hosts.go:parseOperatorHosts config/signin.go:elsewhere operator/session.go:hostAsked
		page/host.go:HostOf gateway/upstream.go:Upstream.modify client/host.go:HostOf dpop/uri.go:normal orgadmin/rulespage.go:hostTyped`},
	{"a record is kept to be read, without what does not show and what may be a secret: it decides nothing", `
		activity/clean.go:cleanItem activity/clean.go:hasToken activity/clean.go:visible`},
	{"an address is one in each of its spellings (decision L2)", `
		client/host.go:Loopback server/operatorhosts.go:operatorHost limit/addresses.go:plain
		limit/networks.go:parseBlock operator/clients.go:Server.unapprovedFilter store/engine/reuse.go:NetworkOf`},
	{"a redirect URI is read to be refused: what is kept and compared is as it was sent (decision R2)", `
		client/alabel.go:inULabel client/redirect.go:checkAddress client/redirect.go:checkLabels
		client/redirect.go:checkQuery client/redirect.go:hasDotSegment client/redirect.go:httpOnLoopback client/redirect.go:isNumber`},
	{"what was refused byte for byte is looked at once more, to say what was wrong", `
		attempt/attempt.go:AddressOf attempt/attempt.go:AgentOf attempt/wrong.go:ChallengeWrong attempt/wrong.go:Differs
		attempt/wrong.go:HeadersAllowed
		attempt/wrong.go:ResourceDiffers attempt/wrong.go:VerifierWrong`},
	{"codes are typed with spaces and hyphens, recovery codes in any case; no more guesses come of it", `
		signin/factor.go:Server.confirmApp signin/mfa.go:Server.checkCode`},
	{"a new password is refused more often by it", `signin/account.go:Server.wrongPassword`},
	{"attempts are looked for by a part of a name, which finds more of them and decides nothing", `
		store/records/attempt.go:AttemptFilter.narrow`},
	{"two names look alike, and a warning is shown", `
		page/lookalike.go:bare page/lookalike.go:undrawn page/lookalike.go:foldFirst page/lookalike.go:foldLast
		page/lookalike.go:lower`},
	{"two names at one host are one app to an organization's rules, which a client evades by another name in any case", `client/host.go:NameKey client/host.go:foldCase`},
	{"an address is judged by what it leads to, in each form in which IPv6 carries an IPv4 one", `client/address.go:IsPublic outbound/outbound.go:Dialer.DialContext`},
	{"members of JSON that encoding/json takes for one are refused by it", `operator/body.go:checkName strictjson/strictjson.go:fold`},

	// The forms of HTTP.
	{"schemes, media types, charsets, codings and parameters are alike in any case, with spaces around them (RFC 9110 sections 5.6, 8.3, 11.1)", `
		api/body.go:IsJSON api/guard.go:bearerToken page/assets.go:acceptsGzip
		connect/bridge.go:bridge.hear connect/bridge.go:bridge.read connect/bridge.go:bridge.settleFrom
		page/visit.go:isForm limit/proxies.go:forwardedFor limit/proxies.go:forwardedPair client/document.go:fresh client/document/document.go:Fetcher.text oauth/form.go:isMedia oauth/form.go:readBody operator/body.go:Call.readBody
		gateway/directory.go:matches mcp/ask.go:Result mcp/mcp.go:exchange.readBody mcp/pass.go:exchange.kind 
		sample/body.go:hasType sample/condition.go:readTags sample/directory.go:source.read sample/message.go:never sample/message.go:readsJSON`},
	{"the form of a text is asked, and the text is used as it came", `
		api/guard.go:isB64Token client/document.go:CheckDocumentHost config/hosts.go:askedAs config/hosts.go:hostName
		connect/endpoint.go:parseEndpoint connect/wire.go:header signin/oidc.go:plainWord limit/proxies.go:Proxies.fromList limit/proxies.go:port`},
	{"header names are alike in any case, and are allowed as they were asked for", `api/answer.go:allowedHeaders`},
	{"header names are alike in any case, and more are taken out by it", `gateway/passed.go:notPassedOn gateway/passed.go:notPassedBack gateway/passed.go:onlyPassedBack gateway/passed.go:passedOn`},
	{"a path that two servers could read differently is refused by it", `
		operator/console/signin.go:Server.ownPath page/site.go:Site.withPages page/site.go:Site.nearest page/language.go:Visit.here gateway/original.go:cleaned
		gateway/original.go:roots.settle operator/answer.go:Server.WithNotFound
		config/paths.go:Checked.checkPath config/paths.go:belowFolded
		rules/path.go:Plain rules/path.go:oddURI rules/path.go:readingsOfURI rules/path.go:singleSlashes`},
	{"a call is held against a rule in every reading that some router has of it, and each has to be allowed; the words of a rule are its operator's (decision V26)", `
		rules/compile.go:methodIn rules/compile.go:rule.call rules/compile.go:rule.matches rules/compile.go:rule.same
		rules/path.go:isName rules/path.go:list.add rules/path.go:parsePath rules/path.go:pattern.covers
		rules/path.go:pattern.match rules/path.go:readingsOfPath rules/source.go:inQuery rules/source.go:parsePointer
		rules/source.go:plainKey`},
	{"parameters are decoded once, as forms are (WHATWG URL section 5.1)", `consent/request.go:parseParameters`},
	{"NUL and broken UTF-8 have no place in PostgreSQL or in a page; no key that is looked up may hold U+FFFD", `
		journal/chain/entry.go:Entry.Sum page/frame.go:Site.Show store/postgres/open.go:storable`},

	// What was checked before, or is ours.
	{"space around a JSON text is none of it", `connect/bridge.go:bridge.take connect/wire.go:oneLine`},
	{"a file's name, which a hash of the whole URL tells from others", `connect/endpoint.go:endpoint.fileName`},
	{"random names in small letters", `
		signin/accountlink.go:Server.provision oauth/register.go:newClientID
		store/person.go:Store.AddPerson
		sample/admin.go:newID sample/shelf.go:newItemID`},
	{"addresses that the configuration names, or this server wrote", `
		config/check.go:Checked.CheckDatabase
		doctor/outside.go:Outside.askHandOff doctor/outside.go:Outside.askPath
		doctor/outside.go:Outside.probes setup/setup.go:listenFor
		setup/setup.go:serviceNameOf config/mail.go:Checked.checkMail
		config/reference.go:WithoutPassword config/signin.go:Provider.check
		server/otlp.go:tracesAddress page/branding.go:leadsOut signin/passkey.go:Server.relying
		signin/passkey.go:numeric page/visit.go:WithQuery limit/server.go:ParseServer store/sqlite/files.go:FileURL
		config/check.go:wholeURL store/postgres/open.go:parseURL store/postgres/preflight.go:kindOf devserver/behindsample.go:newDevService`},
	{"files, variables and flags of the operator: line ends, lists and words", `
		cmd/grantkeeper/ask.go:changeOptions.confirm remote/directory.go:ReadImport
		cmd/grantkeeper/main.go:runOn remote/remote.go:readPasswordFlag
		server/otlp.go:newOTLP server/otlp.go:tracesHeader config/secrets.go:decodeKey
		config/secrets.go:parseSecrets config/secrets.go:readDatabaseURL
		config/secrets.go:keyOfGateway config/secrets.go:ReadPassword config/operators.go:Checked.checkOperator
		config/clients.go:listsClients config/config.go:settingOf config/settings.go:list config/settings.go:setting.fromEnvironment
		server/traces.go:checkSampler server/traces.go:tracesOn`},
	{"a drawing is refused more often by it", `page/branding.go:checkDrawing`},
	{"names of rows that are ours, costs of passwords (which have no letters of two cases), SQL and IDs of our own", `
		store/engine/approval.go:Tx.moved store/postgres/journal.go:insertArrays store/postgres/refreshing.go:isExpected store/sqlite/statement.go:insertEvents
		store/keys.go:Store.Keys store/lostkeys.go:LostOptions.compare store/lostkeys.go:Replaced.end store/schema/migration.go:Migration.ChangesRows store/accounts/password.go:forgetCosts
		store/accounts/password.go:SweepCosts store/postgres/preflight.go:Engine.explain store/engine/keyrows.go:Tx.KeysKnown
		`},

	// What people see.
	{"people search, in any case: a page shows more", `
		org/find.go:Finds org/find.go:Person.Find store/oversight/connections.go:connectionWalk.narrow store/oversight/connections.go:lowered store/query/builder.go:Builder.Search`},
	{"IDs that begin alike are looked for, and compared byte for byte when they are there", `store/ids.go:Store.idsBeginning store/ids.go:Store.idsLike`},
	{"lists in the order of the alphabet", `page/access.go:Access.sort grantset/offer.go:byName store/directory.go:Store.Offers`},
	{"what was typed into a search or as a reason, without the spaces around it", `
		consent/asking.go:readMessage devserver/watch.go:devClient.watch
		page/activity.go:Activity.filter orgadmin/attempts.go:Server.attempts orgadmin/connections.go:filterOf orgadmin/connections.go:Server.endPicked orgadmin/requests.go:Server.decideRequest
		orgadmin/rulespage.go:Server.editLists orgadmin/rulespage.go:Server.saveRules signin/support.go:Server.actAs
		signin/support.go:Server.supportPage operator/console/clients.go:Server.clientsPage
		operator/console/form.go:readReason operator/console/organizations.go:Server.addMember operator/console/organizations.go:Server.organizationsPage
		operator/console/people.go:Server.addPerson operator/console/people.go:Server.peoplePage operator/console/tools.go:Server.addClient
		operator/console/tools.go:Server.inspectToken`},
	{"words of a page, a document or a log line", `
		database/backup.go:Verify
		doctor/doctor.go:check.is terminal/terminal.go:CutTo terminal/table.go:Table.Write server/logs.go:serverLog.Write
		server/mail.go:mailer.message cmd/grantkeeper/main.go:usageTemplate
		rules/openapi.go:openAPIMethods terminal/terminal.go:ShownName setup/draft.go:Titled
		cmd/grantkeeper/migrate.go:migratePlanCommand terminal/terminal.go:Printable
		config/reference.go:WriteReference page/dates.go:Words.alone page/host.go:AppOf
		page/words.go:initials page/dates.go:ZoneText gateway/events.go:Server.journalRefused
		operator/console/approvals.go:withSpaces operator/console/clients.go:clientRow.Word
		operator/console/frame.go:sentence operator/console/frame.go:Server.whoView operator/explain.go:explainer.standingLinks
		setup/behind.go:byFlag doctor/rules.go:Examination.checkRules rules/decision.go:Suggest rules/decision.go:patternOf 
		sample/document.go:describe sample/preview.go:shown sample/refusal.go:refusals.answer sample/resources.go:Server.addResources 
		sample/resources.go:scheme sample/route.go:itemRoutes`},
	{"what is drafted to be read and completed by an operator, in an order", `
		rules/openapi.go:basePath rules/openapi.go:openAPI.item rules/openapi.go:openAPI.operations
		rules/draft.go:callOf rules/draft.go:pattern.compare`},
	{"doctor --url looks at another server's documents as clients do, and decides nothing here", `
		probe/address.go:parse probe/address.go:shown
		probe/challenge.go:challenge.bearer probe/challenge.go:challenges probe/challenge.go:scan.skip probe/challenge.go:scan.take
		probe/challenge.go:scan.value probe/document.go:Answer.json probe/document.go:Answer.object 
		probe/fetch/fetch.go:fetcher.may probe/fetch/fetch.go:follow probe/fetch/fetch.go:newFetcher probe/target.go:plain probe/target.go:resourceIdentifier`},
	{"dev, demo and drill, which are clients", `
		cmd/grantkeeper/democmd.go:behindOf demo/demo.go:Client.NoAnswer demo/demo.go:Client.send demo/demo.go:Client.submit
		demo/demo.go:hideForm demo/demo.go:New demo/demo.go:ToldStep.String
		devserver/data.go:addCircle devserver/data.go:demoDirectory
		devserver/data.go:slug devserver/items.go:itemsOf
		demo/steps.go:Client.follow demo/steps.go:Client.takeCode
		devserver/client.go:requestText devserver/client.go:shown
		drill/drill.go:Options.drilled demo/form.go:Form.block
		demo/form.go:nameIn demo/form.go:textOf`},
}

// Each place that folds, trims, normalises or decodes a text has been thought
// about.
func TestFoldingIsReviewed(t *testing.T) {
	mayFold.check(t, uses(t, folding, foldingSQL), "two different texts may be alike there. Compare byte for byte, or add it to mayFold with the reason why it may")
}
