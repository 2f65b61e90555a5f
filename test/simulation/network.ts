import axios, { type AxiosAdapter, AxiosError } from 'axios'
import { NotAllowed, tooLarge } from '../../src/exchange/http/adapter.js'
import type { Operation } from '../../src/market/operation.js'
import { type Query, queryOf } from '../../src/simulator/parameters.js'
import { operationAt } from '../../src/simulator/server.js'
import type { Service } from '../../src/simulator/service.js'
import type { VirtualTime, WhenAwake } from './virtualTime.js'

/** How the way between a machine and the service is at the moment. */
export interface Way {
  /** Nothing gets through, in either direction, without an error. */
  isCut: boolean
  /** Share of the requests that get lost on their way there, or whose responses do on their way back. */
  lossShare: number
  /** Share of the connections that are reset at some moment. */
  resetShare: number
  /** How much longer than usual responses take, at most, in milliseconds. */
  slowMs: number
  /** New connections are refused. */
  isRefused: boolean
  /** Look-ups of the service's name never end. */
  isUnresolved: boolean
}

export const clearWay = (): Way => ({
  isCut: false,
  lossShare: 0,
  resetShare: 0,
  slowMs: 0,
  isRefused: false,
  isUnresolved: false,
})

export interface NetworkOptions {
  readonly time: VirtualTime
  readonly service: Service
  readonly random: () => number
  /** The address that the service sees. */
  readonly address: string
  /** The most that the time from departure to arrival varies, as the recorder is configured. */
  readonly jitterMs: number
  readonly way: Way
  readonly isDead: () => boolean
  /** Runs something once nothing keeps the machine from working. */
  readonly whenAwake: WhenAwake
  readonly onDeparture: () => void
  readonly onArrival: (operation: Operation, address: string, asked: URLSearchParams) => void
  readonly onResponse: (operation: Operation, status: number | 'lost' | 'reset') => void
}

const fastestMs = 4

/** Carries requests to the service and responses back. Each arrives after a while, or never. */
export function createNetwork(options: NetworkOptions): AxiosAdapter {
  const { time, service, random, way, isDead, whenAwake, address } = options
  return (config) =>
    new Promise((resolve, reject) => {
      const { moments, signal, maxContentLength = Infinity } = config
      let isOver = false
      const fail = (error: Error) => {
        if (isOver || isDead()) return
        isOver = true
        reject(error)
      }
      const reset = () => fail(new AxiosError('read ECONNRESET', 'ECONNRESET', config))
      signal?.addEventListener?.('abort', () => fail(new axios.CanceledError(undefined, config)))
      const url = new URL(axios.getUri(config))
      const operation = operationAt(url.pathname) as Operation
      const lost = (where: 'lost' | 'reset') => options.onResponse(operation, where)

      // As the recorder's own look-up, which this network replaces, ends it.
      if (way.isUnresolved) {
        const silence = new AxiosError('the resolver has not responded for 5 s', 'EAI_AGAIN', config)
        return void time.after(5_000, () => whenAwake(() => fail(silence)))
      }
      time.after(0, () => {
        if (way.isRefused || service.isDown())
          return fail(new AxiosError('connect ECONNREFUSED', 'ECONNREFUSED', config))
        if (isDead()) return
        if (moments?.mayLeave?.() === false) return fail(new NotAllowed())
        options.onDeparture()
        moments?.onSent()
      })
      const isLostThere = random() < way.lossShare
      const isResetThere = random() < way.resetShare / 2
      time.after(fastestMs + random() * options.jitterMs, () => {
        if (isDead() && random() < 0.5) return
        if (isOver || way.isCut || isLostThere) return lost('lost')
        if (isResetThere) {
          lost('reset')
          return reset()
        }
        options.onArrival(operation, address, url.searchParams)
        void respond(operation, queryOf(url.searchParams))
      })
      /** Takes its own time: nobody stands still for it. */
      const respond = async (operation: Operation, query: Query) => {
        const reply = await service.respond(operation, query, address, time.nowMs)
        if (reply.kind === 'noResponse') return
        if (reply.kind === 'reset') return reset()
        const delivered = reply.begin()
        const { outgoing, fault } = reply
        const body = Buffer.concat(outgoing.body.map((part) => Buffer.from(part)))
        const isTorn = fault?.kind === 'tornBody' || random() < way.resetShare / 2
        const trickleMs = fault?.kind === 'slowBody' ? fault.overMs : 0
        const isLostBack = random() < way.lossShare
        const backMs = fastestMs / 2 + random() * 10 + random() * way.slowMs
        const arrive = () => {
          if (isOver || isDead() || way.isCut || isLostBack) {
            delivered('none')
            return lost('lost')
          }
          moments?.onResponse()
          const end = () => {
            if (isOver || isDead() || way.isCut) return delivered('none')
            if (isTorn) {
              delivered('torn')
              lost('reset')
              return reset()
            }
            if (body.length > maxContentLength) {
              delivered('torn')
              return fail(tooLarge(config))
            }
            isOver = true
            delivered('complete')
            options.onResponse(operation, outgoing.status)
            const { status, headers } = outgoing
            resolve({ data: body, status, statusText: '', headers, config })
          }
          time.after(trickleMs, () => whenAwake(end))
        }
        time.after(backMs, () => whenAwake(arrive))
      }
    })
}
