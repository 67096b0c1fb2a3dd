// Runs the reference MCP server of the TypeScript SDK, as it comes from npm, on
// the port that it is told.
process.env.PORT = process.argv[2];
await import("@modelcontextprotocol/server-everything/dist/transports/streamableHttp.js");
