package remote

import (
	"context"
	"encoding/csv"
	"io"
	"net/http"
	"net/url"

	"github.com/grantkeeper/grantkeeper/org"
	"github.com/grantkeeper/grantkeeper/terminal"
)

// csvColumns are members of a connection, in the order of the table.
var csvColumns = []string{"id", "client_name", "client_id", "host", "person", "person_email", "grant", "access", "created_at", "last_used", "ends_at", "reviewed_by", "reviewed_at"}

// WriteConnections writes every connection that a filter finds in the list at a path, as
// it is read, in CSV, once the journal has it that somebody takes the list.
func (c *Server) WriteConnections(ctx context.Context, out io.Writer, path string, query url.Values) error {
	query.Set("limit", "1000")
	w := csv.NewWriter(out)
	told := false
	for {
		var some struct {
			Items []map[string]any
			Next  string
		}
		if err := c.Do(ctx, http.MethodGet, path, query, nil, &some); err != nil {
			return err
		}
		if !told {
			var answer map[string]any
			if err := c.Do(ctx, http.MethodPost, path+"/exported", nil, map[string]any{}, &answer); err != nil {
				return err
			}
			if err := w.Write(csvColumns); err != nil {
				return err
			}
			told = true
		}
		for _, item := range some.Items {
			var row []string
			for _, name := range csvColumns {
				row = append(row, csvCell(item[name]))
			}
			if err := w.Write(row); err != nil {
				return err
			}
		}
		if w.Flush(); some.Next == "" || w.Error() != nil {
			return w.Error()
		}
		query.Set("after", some.Next)
	}
}

// csvCell writes a value so that no spreadsheet takes it for a formula: clients choose
// their names.
func csvCell(v any) string {
	if n, ok := v.(float64); ok {
		if n == 0 {
			return ""
		}
		return terminal.TimeOf(n)
	}
	text, _ := v.(string)
	return org.Cell(text)
}
