/** One durable transaction a request: WAL, and a flush at every commit. */
import Database from "better-sqlite3";

export function openPlants(path) {
  const database = new Database(path);
  database.pragma("journal_mode = WAL");
  database.pragma("synchronous = FULL");
  database.exec(
    "create table if not exists plants (id integer, name text not null, tag text)"
  );
  const insert = database.prepare(
    "insert into plants (id, name, tag) values (?, ?, ?)"
  );
  return ({ id, name, tag }) => insert.run(id, name, tag ?? null);
}
