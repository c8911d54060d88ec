/**
 * Posts a file of plants, one on each line, each exactly once: node load.mjs FILE
 *
 * PLANTS_URL is the server's, PLANTS_TOKEN a token. FILE.loaded has the file's digest and the
 * number of lines that are done, FILE.refused a message for each line that was refused. Ends with 1
 * if there is such a line, with 2 if it stopped before the end: run it again, it continues there.
 */
import { createHash } from "node:crypto";
import {
  appendFileSync,
  createReadStream,
  existsSync,
  readFileSync,
  renameSync,
  statSync,
  writeFileSync
} from "node:fs";
import { text as textOf } from "node:stream/consumers";
import { setTimeout } from "node:timers/promises";

const { PLANTS_URL: url = "http://127.0.0.1:8080", PLANTS_TOKEN: token } =
  process.env;
const { Agent, request } = await import(
  url.startsWith("https:") ? "node:https" : "node:http"
);
const [path] = process.argv.slice(2);
const [loaded, refused] = [`${path}.loaded`, `${path}.refused`];

// Lines on their way at once. Their records must fit in the server's window of keys, which is 1 MiB
// by the recipe for small machines.
const linesMax = 64;
const bytesMax = 500_000;

// How long a stream knows a key at least: the server takes no stream with a shorter
// duplicate_window. A journal's window is in bytes.
const windowMillis = 120_000;

// How long a connection may be silent, and for how long a line without a response is repeated.
const silenceMillis = 30_000;
const repeatMillis = windowMillis / 2;

const agent = new Agent({ keepAlive: true, maxSockets: linesMax });

async function load() {
  if (!path) throw new Error("usage: PLANTS_TOKEN=TOKEN node load.mjs FILE");
  if (!token)
    throw new Error(
      "PLANTS_TOKEN is not set: it must be a token of the server"
    );
  const hash = createHash("sha256");
  let all = 0;
  for await (const block of createReadStream(path)) {
    hash.update(block);
    all += block.length;
  }
  const digest = hash.digest("base64url");
  const isNew = !existsSync(loaded);
  const record = (lines) => {
    writeFileSync(`${loaded}.part`, `${digest} ${lines}`, { flush: true });
    renameSync(`${loaded}.part`, loaded);
  };
  if (isNew) record(0);
  const [known, done] = readFileSync(loaded, "utf8").split(" ");
  if (known !== digest)
    throw new Error(`${path} has changed since ${loaded} was written`);
  writeFileSync(refused, "", { flag: isNew ? "w" : "a" });

  const ageMillis = Date.now() - statSync(loaded).mtimeMs;
  let isWarned = ageMillis <= windowMillis;
  let line = 0;
  let read = 0;
  let batch = [];
  let bytes = 0;
  const post = async (last) => {
    const messages = await Promise.all(
      batch.map((each) => postLine(each, digest))
    );
    // Before the progress: after a kill between the two, these lines are posted and refused again.
    appendFileSync(refused, messages.join(""), { flush: true });
    record(last);
    [batch, bytes] = [[], 0];

    // What is printed next takes the place of this text.
    if (process.stderr.isTTY)
      process.stderr.write(
        `${last} lines, ${Math.min(Math.floor((read / all) * 100), 100)} %\r`
      );
  };

  for await (const text of linesOf(path)) {
    line++;
    read += text.length + 1;
    if (line <= Number(done) || /^[ \t\r]*$/.test(text)) continue;
    if (!isWarned)
      console.error(
        `${loaded} is ${Math.round(ageMillis / 1000)} s old: if the store is a stream, it may have ` +
          `forgotten the last run's keys, and up to ${linesMax} lines after line ${done} may be stored twice`
      );
    isWarned = true;
    if (batch.length === linesMax || bytes + text.length > bytesMax)
      await post(line - 1);
    batch.push({ text, line });
    bytes += text.length;
  }
  await post(line);

  const messages = new Set(
    readFileSync(refused, "utf8").split("\n").filter(Boolean)
  );
  for (const message of messages) console.error(message);
  console.log(`${line} lines are done, ${messages.size} of them refused`);
  if (messages.size > 0) process.exitCode = 1;
}

/** Yields the lines, which end in LF alone. Latin-1 keeps every byte, and so every digit of an id. */
async function* linesOf(path) {
  let unfinished = "";
  for await (const chunk of createReadStream(path, "latin1")) {
    // A string that grows is not copied until it is split.
    unfinished += chunk;
    if (!chunk.includes("\n")) continue;
    const lines = unfinished.split("\n");
    unfinished = lines.pop();
    yield* lines;
  }
  if (unfinished) yield unfinished;
}

/** Returns a message if no server can take the line. Anything else that fails ends this run. */
async function postLine({ text, line }, digest) {
  const body = Buffer.from(text, "latin1");
  const key = `${digest}-${line}`;
  const { status, answer } = await sendUntilAnswered(body, key).catch(
    (error) => {
      throw new Error(`line ${line} got no response${reasonOf(error)}`);
    }
  );
  if (status === 200) return "";
  const message = `line ${line} is not stored: ${answer.trim().replaceAll(/\s+/g, " ")}\n`;
  if (status !== 400 && status !== 413) throw new Error(message.trimEnd());
  return message;
}

/**
 * Sends a line again if its connection was closed without a response: its key makes that safe. A
 * server closes each connection beyond its --max-connections, so the agent uses one less then.
 */
async function sendUntilAnswered(body, key) {
  for (const begun = Date.now(); ; await setTimeout(1_000)) {
    try {
      return await send(body, key);
    } catch (error) {
      const age = Date.now() - begun;
      if (!isClosed(error) || age > repeatMillis) throw error;
      agent.maxSockets = Math.max(1, agent.maxSockets - 1);
    }
  }
}

function send(body, key) {
  const headers = {
    Authorization: `Bearer ${token}`,
    "Content-Type": "application/json",
    "Idempotency-Key": key
  };
  const options = { method: "POST", headers, agent, timeout: silenceMillis };
  return new Promise((resolve, reject) => {
    const sent = request(`${url.replace(/\/$/, "")}/plants`, options);
    sent.on("error", reject);
    sent.on("timeout", () => sent.destroy());
    sent.on("response", (response) =>
      textOf(response).then(
        (answer) => resolve({ status: response.statusCode, answer }),
        reject
      )
    );
    sent.end(body);
  });
}

const isClosed = ({ code }) =>
  ["ECONNRESET", "ECONNABORTED", "EPIPE"].includes(code);

/** Returns what a failed request means. An error of several addresses has no message. */
function reasonOf(error) {
  if (!isClosed(error)) return `: ${error.message || error.code}`;
  return (
    ` for ${repeatMillis / 1_000} s (${error.message}): the server is stuck, or it closes each connection, ` +
    "as it does beyond its --max-connections. The line may be stored. Run load.mjs again"
  );
}

process.once("SIGINT", () => {
  const [, lines = 0] = existsSync(loaded)
    ? readFileSync(loaded, "utf8").split(" ")
    : [];
  console.error(`${lines} lines are done: run load.mjs again for the rest`);
  process.exit(2);
});
await load().catch((error) => {
  console.error(error.message);
  process.exitCode = 2;
});
