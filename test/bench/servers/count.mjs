/** How many plants a database holds, seen by a process of its own. */
import Database from "better-sqlite3";

const database = new Database(process.argv[2] ?? "", { readonly: true });
process.stdout.write(
  `${database.prepare("select count(*) from plants").pluck().get()}\n`
);
