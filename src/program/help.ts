/** The text of `--help`: its tables are those of settings.ts and config.ts. */
import { entries, environmentOf, tokenVariable } from "./settings.ts";

/** The package's; a test holds it to package.json. */
export const version = "1.0.0";

/** What can be set is listed with its default and what it does, so that no row can be forgotten. */
export function help(): string {
  const options = entries.map((entry) => {
    const meaning = "unit" in entry ? entry.reason : entry.meaning;
    const defaultValue =
      "unit" in entry
        ? `${entry.defaultValue} ${entry.unit}`
        : `${entry.defaultValue}`;
    return entryOf(
      `--${entry.flag}`,
      environmentOf(entry),
      meaning,
      defaultValue
    );
  });

  return `plant-store ${version}: takes plants over HTTP and keeps them

  plant-store [serve] [options]   serve POST /plants; SIGTERM ends it, SIGHUP reads tokens anew
                                  and goes on in a new journal where the old one was renamed
  plant-store verify FILE...      check whole journals; --json for programs
  plant-store import FILE...      put journals into a stream: --store nats://HOSTS/STREAM
  plant-store export FILE         write a stream as a journal: --store nats://HOSTS/STREAM
  plant-store token [NAME]        make a token: itself on stderr, its tokens file's line on stdout
  plant-store openapi             print the OpenAPI description
  plant-store -h, --help, --version

Each option of serve, its variable, its default, and what it does:

${options.join("\n")}
${entryOf("", tokenVariable, "one token itself: never a flag, for ps shows flags", "")}`;
}

/** Columns as wide as the longest flag and variable. */
const entryOf = (
  flag: string,
  variable: string,
  meaning: string,
  defaultValue: string
): string =>
  `  ${flag.padEnd(20)} ${variable.padEnd(25)} ${defaultValue || "none"}\n      ${meaning}`;
