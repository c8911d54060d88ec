/**
 * Reports tests to a person, whatever the version of Node: a dot for 25 tests that end, each failure
 * with its output and the titles above it, the skipped tests by their reason, and Node's closing
 * counts. A test that passes has no line. `npm test -- --test-reporter=spec` shows each one.
 */
import { relative } from "node:path";
import { inspect } from "node:util";

const testsOfDot = 25;
const dotsOfLine = 80;
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
      if (ended % (testsOfDot * dotsOfLine) === 0) yield "\n";
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

const reasonOf = ({ skip }) =>
  typeof skip === "string" && skip !== "" ? skip : "no reason is given";

const indented = (text) => text.trimEnd().replace(/^/gm, "    ");

/** Describes a failed test. `started` has the titles above it, by depth. */
function failure({ name, nesting, file, line, details }, started) {
  const error = details.error?.cause ?? details.error;
  const text =
    typeof error === "string" ? error : inspect(error, { depth: 10 });
  const { exitCode, signal } = details.error ?? {};
  const end = exitCode || signal ? ` (ended with ${exitCode || signal})` : "";
  const title = [...started.slice(0, nesting), name].join(" > ");
  const place = `${sourceOf(file)}:${line ?? 1}`;
  return `\nnot ok ${title}${end}\n  at ${place}\n${indented(text)}\n`;
}
