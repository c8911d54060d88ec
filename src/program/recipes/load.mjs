/**
 * Posts a file of plants, one on each line, each exactly once: node load.mjs FILE
 *
 * PLANTS_URL is the server's, PLANTS_TOKEN a token. FILE.loaded has the file's digest and the
 * number of lines that are done. After an error or a kill, run it again: it continues there.
 */
import { createHash } from "node:crypto";
import { createReadStream, existsSync, readFileSync, renameSync, writeFileSync } from "node:fs";
import { createInterface } from "node:readline";

const { PLANTS_URL: url = "http://127.0.0.1:8080", PLANTS_TOKEN: token } = process.env;
const [path] = process.argv.slice(2);

// Lines on their way at once. With their records they must fit in the server's window of keys.
const linesMax = 64;
const bytesMax = 2_000_000;

async function load() {
  const hash = createHash("sha256");
  for await (const block of createReadStream(path)) hash.update(block);
  const digest = hash.digest("base64url");
  const progress = existsSync(`${path}.loaded`) ? readFileSync(`${path}.loaded`, "utf8") : `${digest} 0`;
  let done = Number(progress.split(" ")[1]);
  if (!progress.startsWith(`${digest} `)) throw new Error(`${path} has changed since ${path}.loaded was written`);

  let line = 0;
  let batch = [];
  let bytes = 0;
  const post = async () => {
    await Promise.all(batch.map((body, index) => postLine(body, done + index + 1, digest)));
    done += batch.length;
    writeFileSync(`${path}.loaded.part`, `${digest} ${done}`, { flush: true });
    renameSync(`${path}.loaded.part`, `${path}.loaded`);
    [batch, bytes] = [[], 0];
  };

  // Latin-1 keeps every byte as it is, and so every digit of an id.
  const input = createReadStream(path, "latin1");
  for await (const text of createInterface({ input })) {
    if (++line <= done) continue;
    if (batch.length === linesMax || bytes + text.length > bytesMax) await post();
    batch.push(text);
    bytes += text.length;
  }
  await post();
  console.log(`${done} lines are done`);
}

async function postLine(text, line, digest) {
  const response = await fetch(`${url}/plants`, {
    method: "POST",
    headers: {
      Authorization: `Bearer ${token}`,
      "Content-Type": "application/json",
      "Idempotency-Key": `${digest}-${line}`
    },
    body: Buffer.from(text, "latin1")
  });
  const answer = await response.text();
  if (response.ok) return;
  const message = `line ${line} is not stored: ${answer.trimEnd()}`;

  // A line that no server can take is left out. Anything else ends this run.
  if (response.status !== 400 && response.status !== 413) throw new Error(message);
  console.error(message);
  process.exitCode = 1;
}

await load().catch((error) => {
  console.error(error.cause?.message ?? error.message);
  process.exitCode = 1;
});
