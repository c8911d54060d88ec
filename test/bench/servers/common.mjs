/** What the peers share. Each listens on a free port, and says so as the plant store does. */
export const token = process.env.PLANTS_TOKEN ?? "";
export const store = process.env.BENCH_STORE ?? "";

export function listen(server) {
  server.listen(0, "127.0.0.1", () => announce(server.address().port));
}

export function announce(port) {
  process.stdout.write(`listening on http://127.0.0.1:${port}\n`);
}

/** Parses a body and keeps nothing. */
export function bar(request, response) {
  const chunks = [];
  request
    .on("data", (chunk) => chunks.push(chunk))
    .on("end", () => {
      const { name, tag } = JSON.parse(Buffer.concat(chunks).toString());
      const body = JSON.stringify({ name, tag });
      const length = Buffer.byteLength(body);
      response.writeHead(200, {
        "Content-Type": "application/json",
        "Content-Length": length
      });
      response.end(body);
    });
}
