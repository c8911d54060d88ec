/**
 * A whole response is passed to the kernel in one piece, on every Node. By themselves, Nodes before
 * 24 make two pieces, the second one empty, which costs a tenth of a request.
 */
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { missing, patched } from "../support/tools.ts";
import { program, start, temporaryFolder, token } from "../support/support.ts";

const { PLANT_TEST_NODES = "" } = process.env;
const nodes = [process.execPath, ...PLANT_TEST_NODES.split(":").filter(Boolean)];
const noStrace = missing(["strace", "-f", "-o", "/dev/null", "true"]);

/** Returns the system calls that sent responses, in order, each with the response's status. */
async function callsOf(node: string, built: string): Promise<readonly string[]> {
  const trace = join(temporaryFolder(), "trace");
  const server = await start({
    node: "strace",
    nodeArgs: ["-D", "-f", "-q", "-s", "99", "-o", trace,
      "-e", "trace=write,writev,sendto,sendmsg", node],
    program: built,
  });
  for (const body of ['{"id":1,"name":"Fern"}', '{"id":2,"name":"\u00e9"}', "no JSON"]) {
    await (await fetch(`${server.url}/plants`, {
      method: "POST",
      body,
      headers: { Authorization: `Bearer ${token}`, "Content-Type": "application/json" },
    })).text();
  }
  assert.equal(await server.end(), 0);

  // The program has ended, but strace may still have to write the last lines: not the answers'.
  const lines = readFileSync(trace, "utf8").split("\n");
  const answers = lines.filter((line) => line.includes("HTTP/1.1 "));
  return answers.map((line) => {
    const { call = "", status = "" } =
      /(?<call>\w+)\(.*HTTP\/1\.1 (?<status>\d+)/.exec(line)?.groups ?? {};
    return `${call} ${status}`;
  });
}

for (const node of nodes) {
  test(`a response is one write: ${node}`, { skip: noStrace }, async () => {
    assert.deepEqual(await callsOf(node, program), ["write 200", "write 200", "write 400"]);
  });
}

// From Node 24 on they are one write there, too.
const isOne = Number(process.versions.node.split(".")[0]) >= 24;
const noControl = noStrace || (isOne && `Node ${process.version} joins them: run it with Node 20`);
test("the control: a response passed to end() is two pieces", { skip: noControl }, async () => {
  const built = patched("reply.js", [
    ["response.write(body, coding);", "response.end(body);"],
  ], "http");
  const calls = await callsOf(process.execPath, built);
  assert.deepEqual(calls, ["writev 200", "writev 200", "writev 400"]);
});
