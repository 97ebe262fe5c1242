/**
 * What a tree of processes has used, from `/proc` (Linux; proc(5)).
 *
 * Invariants
 * 1. CPU time of a child that ended and was waited for is its parent's (`cutime`, `cstime`): a difference of two readings of
 *    a tree misses nothing that ran in between.
 * 2. Memory is the proportional set size: what several processes share is counted once.
 */
import { execFileSync } from "node:child_process"
import { readdirSync, readFileSync } from "node:fs"

const ticksPerSecond = (): number => Number(execFileSync("getconf", ["CLK_TCK"], { encoding: "utf8" }))

interface Stat {
  readonly parent: number
  readonly ticks: number
}

const statOf = (pid: number): Stat | null => {
  try {
    const text = readFileSync(`/proc/${pid}/stat`, "latin1")
    const fields = text.slice(text.lastIndexOf(")") + 2).split(" ")
    // Fields 4 and 14 to 17 of proc(5); the first one here is field 3.
    return { parent: Number(fields[1]), ticks: [11, 12, 13, 14].reduce((sum, i) => sum + Number(fields[i]), 0) }
  } catch {
    return null
  }
}

/** The processes and everything that descends from them. */
export const treeOf = (roots: ReadonlyArray<number>): ReadonlyArray<number> => {
  const all = readdirSync("/proc").filter((name) => /^\d+$/.test(name)).map(Number)
  const parents = new Map(all.map((pid) => [pid, statOf(pid)?.parent ?? 0]))
  const wanted = new Set(roots.filter((pid) => parents.has(pid)))
  for (let grown = true; grown;) {
    grown = false
    for (const [pid, parent] of parents) {
      if (!wanted.has(pid) && wanted.has(parent)) {
        wanted.add(pid)
        grown = true
      }
    }
  }
  return [...wanted]
}

/** CPU seconds (user and system) used so far by a tree. */
export const cpuSeconds = (roots: ReadonlyArray<number>): number =>
  treeOf(roots).reduce((sum, pid) => sum + (statOf(pid)?.ticks ?? 0), 0) / ticksPerSecond()

/** Proportional set size of a tree, bytes; null where a process may not be looked into. */
export const memoryBytes = (roots: ReadonlyArray<number>): number | null => {
  let bytes = 0
  for (const pid of treeOf(roots)) {
    try {
      bytes += Number(/^Pss:\s+(\d+) kB/m.exec(readFileSync(`/proc/${pid}/smaps_rollup`, "latin1"))?.[1] ?? 0) * 1024
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code === "EACCES") return null
    }
  }
  return bytes
}
