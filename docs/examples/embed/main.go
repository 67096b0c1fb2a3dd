// Command embed is a Go program that has the whole authorization server in itself.
package main

import (
	"context"
	"flag"
	"log"
	"log/slog"
	"os"
	"os/signal"
	"syscall"

	"github.com/grantkeeper/grantkeeper/config"
	"github.com/grantkeeper/grantkeeper/server"
)

func main() {
	file := flag.String("config", "grantkeeper.toml", "configuration file, as grantkeeper init writes it")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	s, err := start(ctx, *file)
	if err != nil {
		log.Fatal(err)
	}
	<-ctx.Done()
	if err := s.Close(context.Background()); err != nil {
		log.Fatal(err)
	}
}

// start starts the server of a configuration, which the environment may change.
func start(ctx context.Context, file string) (*server.Server, error) {
	loaded, err := config.Load(file, os.Environ(), nil)
	if err != nil {
		return nil, err
	}
	checked, err := loaded.Check()
	if err != nil {
		return nil, err
	}
	return server.Start(ctx, checked, server.Options{Log: slog.Default()})
}
