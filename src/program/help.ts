/** The text of `--help`: its tables are those of settings.ts and config.ts. */
import { limitTable } from "../config.ts";
import { environmentOf, settingTable, tokenVariable } from "./settings.ts";

/** The package's; a test holds it to package.json. */
export const version = "1.0.0";

/** What can be set is listed with its default and reason, so that no row can be forgotten. */
export function help(): string {
  const settings = Object.entries(settingTable).map(([flag, setting]) =>
    rowOf(flag, setting.environment, setting.meaning, String(setting.standard) || "none"));
  const limits = Object.values(limitTable).map((limit) =>
    rowOf(limit.flag, environmentOf(limit), limit.reason, `${limit.standard} ${limit.unit}`));

  return `plant-store ${version}: takes plants over HTTP and keeps them

  plant-store [serve] [options]   serve POST /plants; SIGTERM ends it, SIGHUP reads tokens anew
                                  and goes on in a new journal where the old one was renamed
  plant-store verify FILE...      check whole journals; --json for programs
  plant-store token [NAME]        make a token: itself on stderr, its tokens file's line on stdout
  plant-store openapi             print the OpenAPI description
  plant-store --help, --version

${[...settings, ...limits].join("\n")}
  ${"".padEnd(20)} ${tokenVariable.padEnd(25)} one token itself: never a flag, for ps shows flags`;
}

/** Columns as wide as the longest flag and variable. */
const rowOf = (flag: string, variable: string, meaning: string, standard: string): string =>
  `  --${flag.padEnd(18)} ${variable.padEnd(25)} ${meaning} (${standard})`;
