/**
 * Small file systems of their own, made in a file and mounted, that can fill up, fail, hang and vanish. Needs root and loop devices.
 *
 * Invariant: `drop` leaves nothing mounted and nothing behind, whatever was done before.
 */
import { execFileSync } from "node:child_process"
import { mkdirSync, mkdtempSync, rmSync, statfsSync, statSync } from "node:fs"
import { tmpdir } from "node:os"
import * as path from "node:path"

const run = (command: string, ...args: ReadonlyArray<string>): void => {
  execFileSync(command, args, { stdio: "pipe" })
}

const quietly = (work: () => void): void => {
  try {
    work()
  } catch {
    // It was already so.
  }
}

export class Disk {
  readonly name: string
  /** Where it is mounted. */
  readonly path: string
  readonly #image: string
  #frozen = false

  constructor(folder: string, name: string, mebibytes: number) {
    this.name = name
    this.path = path.join(folder, name)
    this.#image = path.join(folder, `${name}.img`)
    mkdirSync(this.path)
    run("truncate", "-s", `${mebibytes}M`, this.#image)
    run("mkfs.ext4", "-q", "-F", "-m", "0", this.#image)
    this.mount()
  }

  mount(): void {
    run("mount", "-o", "loop", this.#image, this.path)
  }

  /** Lazily: what is open stays open, and the directory is empty. */
  unmount(): void {
    run("umount", "-l", this.path)
  }

  /** What a failing device does to ext4: the journal is aborted, nothing can be written any more. */
  abort(): void {
    run("mount", "-o", "remount,abort", this.path)
  }

  /** Every write waits. */
  freeze(): void {
    run("fsfreeze", "-f", this.path)
    this.#frozen = true
  }

  thaw(): void {
    if (this.#frozen) run("fsfreeze", "-u", this.path)
    this.#frozen = false
  }

  get freeBytes(): number {
    const { bavail, bsize } = statfsSync(this.path)
    return bavail * bsize
  }

  /** Takes space until so much is free; more and more where it is called again. */
  fill(freeBytes: number): void {
    const ballast = path.join(this.path, "ballast")
    const taken = statSync(ballast, { throwIfNoEntry: false })?.size ?? 0
    const more = this.freeBytes - freeBytes
    if (more > 0) quietly(() => run("fallocate", "-l", String(taken + more), ballast))
  }

  relieve(): void {
    rmSync(path.join(this.path, "ballast"), { force: true })
  }

  drop(): void {
    quietly(() => this.thaw())
    quietly(() => this.unmount())
  }
}

/** Why there can be no such disks here; empty where there can. */
export const withoutDisks = (): string => {
  const folder = mkdtempSync(path.join(tmpdir(), "nightjar-try-"))
  try {
    new Disk(folder, "try", 16).drop()
    return ""
  } catch (error) {
    return String(error).split("\n")[0]!
  } finally {
    rmSync(folder, { recursive: true, force: true })
  }
}
