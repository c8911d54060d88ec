/** The text of `--help`: its tables are those of settings.ts and config.ts. */
import { limitTable } from "../config.ts";
import { environmentOf, settingTable, tokenVariable } from "./settings.ts";

/** The package's; a test holds it to package.json. */
export const version = "1.0.0";

/** What can be set is listed with its default and what it does, so that no row can be forgotten. */
export function help(): string {
  const settings = Object.entries(settingTable).map(([flag, setting]) =>
    entryOf(`--${flag}`, setting.environment, setting.meaning, `${setting.standard}`));
  const limits = Object.values(limitTable).map((limit) => entryOf(
    `--${limit.flag}`, environmentOf(limit), limit.reason, `${limit.standard} ${limit.unit}`));

  return `plant-store ${version}: takes plants over HTTP and keeps them

  plant-store [serve] [options]   serve POST /plants; SIGTERM ends it, SIGHUP reads tokens anew
                                  and goes on in a new journal where the old one was renamed
  plant-store verify FILE...      check whole journals, - is standard input; --json for programs
  plant-store import FILE...      put journals into a stream: --store nats://HOSTS/STREAM
  plant-store export FILE         write a stream as a journal: --store nats://HOSTS/STREAM
  plant-store token [NAME]        make a token: itself on stderr, its tokens file's line on stdout
  plant-store openapi             print the OpenAPI description
  plant-store -h, --help, --version

Each option of serve, its variable, its default, and what it does:

${[...settings, ...limits].join("\n")}
${entryOf("", tokenVariable, "one token itself: never a flag, for ps shows flags", "")}`;
}

/** Columns as wide as the longest flag and variable. */
const entryOf = (flag: string, variable: string, meaning: string, standard: string): string =>
  `  ${flag.padEnd(20)} ${variable.padEnd(25)} ${standard || "none"}\n      ${meaning}`;
