/** Hostile orders: pipelined requests, bytes that follow them, half-closes. */
import {
  chunk,
  evil,
  plant,
  request,
  sequencesOf,
  withoutBody,
  type Row,
  type Sequences
} from "./hostile.ts";

const a = request({ body: plant(1) });
const b = request({ body: plant(2) });
const last = request({ body: plant(9), fields: "Connection: close\r\n" });
const garbage = "garbage\r\n\r\n";
const connecting = withoutBody({ line: "CONNECT a:1 HTTP/1.1" });
const twoHosts = request({ host: "Host: a\r\nHost: b\r\n" });
const anonymous = { authorization: "", type: "" };
const upgrade = "Connection: upgrade\r\nUpgrade: websocket\r\n";
const upgraded = request({ body: plant(3), fields: upgrade });
/** A request whose body would be the next request. */
const outer = request({ length: a.length, body: "" });
const unfinished = a.slice(0, -1);
const elsewhere = request({ target: "/x" });
const malformed = request({ body: "{" });
const tooLarge = request({ body: evil.padEnd(1_048_577) });
const inChunks = (body: string): string => request({ coding: "chunked", body });

const wholes: Sequences = {
  "responses come in order": {
    "128": [
      [a.repeat(127) + last],
      `${"200,".repeat(127)}200`,
      `${"1,".repeat(127)}9`
    ],
    "errors among them": [
      [a + malformed + b + request({ body: "{}" }) + last],
      "200,40010,200,40014,200",
      "1,2,9"
    ],
    "early responses among them": [
      [a + request(anonymous) + elsewhere + b + last],
      "200,401,40401,200,200",
      "1,2,9"
    ],
    "too large among them": [
      [a + tooLarge + b + last],
      "200,413,200,200",
      "1,2,9"
    ],
    "Expect among them": [
      [
        a +
          request({ body: plant(2), fields: "Expect: 100-continue\r\n" }) +
          last
      ],
      "200,100,200,200",
      "1,2,9"
    ],
    "split between two": [
      [a + b.slice(0, 30), b.slice(30) + last],
      "200,200,200",
      "1,2,9"
    ]
  },
  "nothing is executed after a close": {
    "a request at once": [[last + a], "200", "9"],
    "a request later": [[last, a], "200", "9"],
    "CONNECT": [[last + connecting], "200", "9"],
    "CONNECT after a refusal": [[twoHosts + connecting], "40003", ""],
    "CONNECT later, after a refusal": [[twoHosts, connecting], "40003", ""],
    "half a request after a refusal": [[twoHosts + unfinished], "40003", ""],
    "CONNECT after CONNECT": [[connecting + connecting], "40502", ""],
    "a request after garbage": [[garbage + a], "40001", ""]
  },
  "nothing is executed after": {
    // The parser drops the rest of the segment after an Upgrade. The rest of its body is not a request.
    "an Upgrade, the body of another": [[upgraded + outer, a], "200", "3"],
    "an Upgrade, later": [[upgraded, a], "200", "3"],
    "an Upgrade, garbage": [[upgraded, garbage], "200", "3"],
    "an Upgrade, CONNECT": [[upgraded, connecting], "200", "3"],
    "an Upgrade in HTTP/1.0": [
      [upgraded.replace("HTTP/1.1", "HTTP/1.0") + outer, a],
      "200",
      "3"
    ],
    "an Upgrade with no token": [
      [withoutBody({ ...anonymous, fields: upgrade }) + outer, a],
      "401",
      ""
    ],
    "a refusal": [[a + request({ host: "" }) + b], "200,40003", "1"],
    "a broken chunk": [
      [a + inChunks(`${chunk(evil)}x\r\n`) + b],
      "200,40001",
      "1"
    ],
    "CONNECT": [[a + connecting + b], "200,40502", "1"],
    "CONNECT, no token": [
      [a + withoutBody({ ...anonymous, line: "CONNECT a:1 HTTP/1.1" }) + b],
      "200,401",
      "1"
    ]
  },
  "RFC 9112, 9.3": {
    "after HTTP/1.0": [[request({ version: "HTTP/1.0" }), a], "200", "1"],
    "after RTSP/1.0": [[request({ version: "RTSP/1.0" }) + a], "200", "1"]
  },
  "garbage changes no earlier response": {
    "at once": [[a + garbage], "200,40001", "1"],
    "later": [[a, "\0\0\0\0"], "200,40001", "1"],
    "after two": [[a + b + garbage], "200,200,40001", "1,2"],
    "after 128": [
      [a.repeat(128) + garbage],
      `${"200,".repeat(128)}40001`,
      "1,".repeat(128)
    ],
    "after a 200 and a refusal": [
      [a + elsewhere + garbage],
      "200,40401,40001",
      "1"
    ],
    "a body that is too long": [[`${a}}}\r\n\r\n`], "200,40001", "1"],
    "a megabyte": [[a + "x".repeat(1_000_000)], "200,40001", "1"],
    "a head over the limit": [
      [`${a}GET / HTTP/1.1\r\nX: ${"x".repeat(20_000)}`],
      "200,43101",
      "1"
    ]
  }
};
const halves: Sequences = {
  "a response after a half-close": {
    "after a whole request": [[a], "200", "1"],
    "after two": [[a + b], "200,200", "1,2"],
    "after a body too large": [[tooLarge], "413", ""],
    "after garbage": [[garbage], "40001", ""],
    "after CONNECT": [[connecting], "40502", ""]
  },
  "RFC 9112, 8": {
    "half-close in a body": [[unfinished], "40015", ""],
    "half-close in a chunk": [[inChunks(chunk(evil))], "40015", ""],
    "half-close in a head": [[a.slice(0, 40)], "40015", ""],
    "half-close in a refused body": [[elsewhere.slice(0, -1)], "40401", ""],
    "half-close in the second": [[a + unfinished], "200,40015", "1"],
    "half-close, an empty line": [["\r\n"], "", ""]
  }
};
export const orders: readonly Row[] = [
  ...sequencesOf(wholes),
  ...sequencesOf(halves, { halfClose: true })
];
