/**
 * Reports tests to a person, whatever the version of Node: a dot for 25 tests that end, a line for
 * each tenth of the files, each failure with its output and the titles above it, the skipped tests
 * by their reason, and Node's closing counts. A test that passes has no line.
 * `npm test -- --test-reporter=spec` shows each one.
 */
import { relative } from "node:path";
import { inspect } from "node:util";

const testsOfDot = 25;
const files = Number(process.env.RUNNING_TESTS_FILES ?? Infinity);
const isCount =
  /^(?:tests|suites|pass|fail|cancelled|skipped|todo|duration_ms) /;

/** Returns the source of a test's file: `test/.built` holds what TypeScript has compiled. */
const sourceOf = (file) =>
  relative("", file ?? "")
    .replaceAll("\\", "/")
    .replace(/^test\/\.built\/(.*)\.js$/, "$1.ts");

/** Yields what to print for the events of Node's test runner. */
export default async function* report(events) {
  const outputs = new Map();
  const started = new Map();
  const failedFiles = new Set();
  const skipped = new Map();
  const counts = [];
  const seen = new Set();
  let ended = 0;

  const keep = (file, text) =>
    outputs.set(file, (outputs.get(file) ?? "") + text);

  for await (const { type, data } of events) {
    if (type === "test:stdout" || type === "test:stderr")
      keep(sourceOf(data.file), data.message);
    else if (type === "test:diagnostic" && isCount.test(data.message))
      counts.push(data.message);
    else if (type === "test:diagnostic")
      keep(sourceOf(data.file), `${data.message}\n`);
    else if (type === "test:start")
      started.set(data.file, [
        ...(started.get(data.file) ?? []).slice(0, data.nesting),
        data.name
      ]);
    else if (type === "test:pass" || type === "test:fail") {
      if (++ended % testsOfDot === 0) yield ".";
      const isNew = !seen.has(data.file);
      seen.add(data.file);
      if (isNew && tenthsOf(seen.size) > tenthsOf(seen.size - 1))
        yield ` ${tenthsOf(seen.size)}0 %\n`;
      if (data.skip !== undefined) {
        const names = skipped.get(reasonOf(data)) ?? [];
        skipped.set(reasonOf(data), [...names, data.name]);
      } else if (type === "test:fail" && data.todo === undefined) {
        failedFiles.add(sourceOf(data.file));
        if (data.details.error?.failureType !== "subtestsFailed")
          yield failure(data, started.get(data.file) ?? []);
      }
    }
  }

  yield "\n";
  for (const [file, text] of outputs)
    if (failedFiles.has(file) || file === "")
      yield `output of ${file || "the tests"}:\n${indented(text)}\n`;
  for (const [reason, names] of skipped)
    yield `skipped ${names.length}: ${reason}\n${indented(names.join("\n"))}\n`;
  for (const count of counts) yield `ℹ ${count}\n`;
}

/** Returns how many tenths of the files have ended when the tests of so many have come. */
const tenthsOf = (begun) => Math.floor((10 * Math.max(0, begun - 1)) / files);

const reasonOf = ({ skip }) =>
  typeof skip === "string" && skip !== "" ? skip : "no reason is given";

const indented = (text) => text.trimEnd().replace(/^/gm, "    ");

/** Describes a failed test. `started` has the titles above it, by depth. */
function failure({ name, nesting, file, line, details }, started) {
  const { exitCode, signal } = details.error ?? {};
  const end = exitCode || signal ? ` (ended with ${exitCode || signal})` : "";
  const title = [...started.slice(0, nesting), name].join(" > ");
  const place = `${sourceOf(file)}:${line ?? 1}`;
  const text = textOf(details.error?.cause ?? details.error);
  return `\nnot ok ${title}${end}\n  at ${place}\n${indented(text)}\n`;
}

/** Shows an error. That of a command has its output several times: here once. */
function textOf(error) {
  if (typeof error === "string")
    return error.replace(
      /^test timed out after (\d+)ms$/,
      (_, millis) => `timed out after ${Math.round(millis / 1_000)} s`
    );
  if (!Array.isArray(error?.output)) return inspect(error, { depth: 10 });
  const [, ...outputs] = error.output.map((output) => `${output}`.trimEnd());
  const [command] = error.message.split("\n");
  const place = error.stack.split("\n").filter((line) => /^ +at /.test(line));
  return [command, ...outputs, ...place].filter((line) => line).join("\n");
}
