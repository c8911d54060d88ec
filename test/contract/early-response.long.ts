/**
 * Clients that read while they write (curl, fetch, node:http) see the early response to an 8 MB
 * upload, every time. limits.test.ts tests how much is read, and for how long. framing.test.ts tests
 * each response once, with a client that writes all before it reads. PLANT_TEST_EARLY: the rounds.
 */
import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { writeFileSync } from "node:fs";
import { request } from "node:http";
import { join } from "node:path";
import { text } from "node:stream/consumers";
import { after, test } from "node:test";
import { promisify } from "node:util";
import {
  cleanEnvironment,
  startProcess,
  temporaryFolder,
  token
} from "../support/support.ts";
import { missing } from "../support/tools.ts";
import { seconds } from "../support/until.ts";

const { PLANT_TEST_NODE: node = process.execPath, PLANT_TEST_EARLY = "1" } =
  process.env;
const rounds = Number(PLANT_TEST_EARLY);
const timeout = seconds(60 + rounds * 60);
const server = await startProcess({ node });
after(() => server.end());

const body = Buffer.alloc(8 * 1_048_576, " ");
const bodyFile = join(temporaryFolder(), "body");
writeFileSync(bodyFile, body);

interface Upload {
  readonly method: string;
  readonly path: string;
  readonly authorization: string;
  readonly type: string;
  readonly isChunked: boolean;
  readonly status: number;
}
const good = {
  method: "POST",
  path: "/plants",
  authorization: `Bearer ${token}`,
  type: "application/json"
} as const;
const uploads: readonly Upload[] = [true, false].flatMap((isChunked) => [
  { ...good, isChunked, authorization: "Bearer another", status: 401 },
  { ...good, isChunked, path: "/nothing", status: 404 },
  { ...good, isChunked, method: "PUT", status: 405 },
  { ...good, isChunked, status: 413 },
  { ...good, isChunked, type: "text/plain", status: 415 }
]);
const nameOf = ({ status, isChunked }: Upload): string =>
  `${status} to ${isChunked ? "chunks" : "a Content-Length"}`;

interface Seen {
  readonly status: number;
  readonly body: string;
}
type Client = (upload: Upload) => Promise<Seen>;
const headersOf = ({
  authorization,
  type
}: Upload): Record<string, string> => ({ authorization, "content-type": type });

const viaCurl: Client = async (upload) => {
  // Without its own Expect, so that it really sends.
  const fields = [
    `Authorization: ${upload.authorization}`,
    `Content-Type: ${upload.type}`,
    "Expect:",
    ...(upload.isChunked ? ["Transfer-Encoding: chunked"] : [])
  ];
  const { stdout } = await promisify(execFile)(
    "curl",
    [
      "-sS",
      "--http1.1",
      "-X",
      upload.method,
      ...fields.flatMap((field) => ["-H", field]),
      "--data-binary",
      `@${bodyFile}`,
      "-w",
      "%{http_code}",
      `${server.url}${upload.path}`
    ],
    { env: cleanEnvironment() }
  );
  return { status: Number(stdout.slice(-3)), body: stdout.slice(0, -3) };
};

const viaFetch: Client = async (upload) => {
  // Node's fetch takes streams with `duplex`, which the types of the DOM do not know.
  const sent = upload.isChunked ? new Blob([body]).stream() : body;
  const options = {
    method: upload.method,
    headers: headersOf(upload),
    body: sent,
    duplex: "half" as const
  };
  const answer = await fetch(`${server.url}${upload.path}`, options);
  return { status: answer.status, body: await answer.text() };
};

const viaHttp: Client = async (upload) => {
  const length = upload.isChunked ? {} : { "content-length": body.length };
  const asked = request(`${server.url}${upload.path}`, {
    method: upload.method,
    headers: { ...headersOf(upload), ...length }
  });
  const answered = new Promise<Seen>((resolve, reject) => {
    // A failure after the response, such as one of a write, does not matter.
    asked.on("error", reject).once("response", (answer) => {
      text(answer).then(
        (seen) => resolve({ status: answer.statusCode ?? 0, body: seen }),
        reject
      );
    });
  });
  for (let at = 0; at < body.length; at += 65_536)
    asked.write(body.subarray(at, at + 65_536));
  asked.end();
  return answered;
};

for (const [name, client, skip] of [
  ["curl", viaCurl, missing(["curl", "--version"])],
  ["fetch", viaFetch, false],
  ["node:http", viaHttp, false]
] as const) {
  test(
    `${name} sees ${rounds} of ${rounds} early responses to 8 MB`,
    { timeout, skip },
    async (t) => {
      for (const upload of uploads) {
        await t.test(nameOf(upload), async () => {
          for (let round = 0; round < rounds; round++) {
            const seen = await client(upload);
            assert.equal(seen.status, upload.status);
            const form = new RegExp(
              `^\\{"error":${upload.status}\\d\\d,"message":"[^"]+"\\}\n$`
            );
            assert.match(seen.body, form);
          }
        });
      }
    }
  );
}
