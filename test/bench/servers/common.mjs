/** What the peers share. Each listens on a free port, and says so as the plant store does. */
export const token = process.env.PLANTS_TOKEN ?? "";
export const store = process.env.BENCH_STORE ?? "";

export function listen(server) {
  server.listen(0, "127.0.0.1", () => announce(server.address().port));
}

export function announce(port) {
  process.stdout.write(`listening on http://127.0.0.1:${port}\n`);
}
