package sample

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// Items are resources too, for clients that let people attach them:
// svalinn://nordlys/notes/{id}, where the scheme is the service's name and the
// host the organization's ID. They are found by listing items, so the list of
// resources itself is empty.

// scheme makes a URI scheme (RFC 3986 section 3.1) of the service's name.
func scheme(service string) string {
	name := strings.Map(func(r rune) rune {
		if 'a' <= r && r <= 'z' || '0' <= r && r <= '9' {
			return r
		}
		return -1
	}, strings.ToLower(service))
	if name = strings.TrimLeft(name, "0123456789"); name == "" {
		return "grantkeeper"
	}
	return name
}

func (s *Server) addResources(server *sdk.Server) {
	for _, kind := range Kinds {
		server.AddResourceTemplate(&sdk.ResourceTemplate{
			Name: kind, Title: strings.ToUpper(kind[:1]) + kind[1:], MIMEType: "application/json",
			Description: "One " + kind + " that may be read, as JSON. list_items gives the IDs, whoami the organization.",
			URITemplate: scheme(s.o.Service) + "://{organization}/" + kind + "s/{id}",
		}, s.readResource)
	}
}

// uri reads the URI of an item.
func (s *Server) uri(uri string) (organization, kind, id string, ok bool) {
	rest, ok := strings.CutPrefix(uri, scheme(s.o.Service)+"://")
	parts := strings.Split(rest, "/")
	if !ok || len(parts) != 3 || checkID(parts[0]) != nil || checkID(parts[2]) != nil {
		return "", "", "", false
	}
	kind, many := strings.CutSuffix(parts[1], "s")
	return parts[0], kind, parts[2], many && slices.Contains(Kinds, kind)
}

// readResource answers as GET on the item does. What may not be read, and what
// belongs to another organization, is not found.
func (s *Server) readResource(ctx context.Context, r *sdk.ReadResourceRequest) (*sdk.ReadResourceResult, error) {
	organization, kind, id, ok := s.uri(r.Params.URI)
	c := callerOf(ctx)
	if !ok || organization != c.Organization {
		return nil, notFound(r.Params.URI)
	}
	i, err := s.readItem(ctx, c, kind, id)
	switch {
	case errors.Is(err, errNoObject):
		return nil, notFound(r.Params.URI)
	case err != nil:
		return nil, &jsonrpc.Error{Code: jsonrpc.CodeInternalError, Message: s.said(ctx, err)}
	}
	body, err := json.Marshal(i)
	if err != nil {
		return nil, err
	}
	return &sdk.ReadResourceResult{Contents: []*sdk.ResourceContents{{URI: r.Params.URI, MIMEType: "application/json", Text: string(body)}}}, nil
}

// known answers for every URI that is none of ours. The SDK would put it into
// its answer quoted as Go does it, which is not always JSON.
func (s *Server) known(next sdk.MethodHandler) sdk.MethodHandler {
	return func(ctx context.Context, method string, r sdk.Request) (sdk.Result, error) {
		if read, ok := r.(*sdk.ReadResourceRequest); ok && read.Params != nil {
			if _, _, _, ok := s.uri(read.Params.URI); !ok {
				return nil, notFound(read.Params.URI)
			}
		}
		return next(ctx, method, r)
	}
}

func notFound(uri string) error {
	return &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: "Resource not found", Data: marshal(map[string]string{"uri": uri})}
}

// marshal writes what is always JSON.
func marshal(v any) []byte {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return b
}
