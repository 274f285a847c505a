//! The SDK's calls over gRPC.
//!
//! In: requests of HTTP/2. Out: answers by tonic. Not here: what a call means (`desk`).

use std::convert::Infallible;
use std::future::{Future, Ready, ready};
use std::pin::Pin;
use std::sync::Arc;
use std::time::Instant;

use hyper::body::Incoming;
use prost::Message;
use tokio::time::timeout;
use tokio_stream::StreamExt as _;
use tokio_stream::wrappers::ReceiverStream;
use tonic::body::Body;
use tonic::server::{ClientStreamingService, Grpc, ServerStreamingService, UnaryService};
use tonic::{Code as GrpcCode, Status, Streaming};
use tonic_prost::ProstCodec;

use super::desk::{Desk, Refusal};
use super::door::{CALL_COST, Door, PATIENCE, REQUEST_BYTES_MAX};
use super::messages::{Empty, GameServer};
use super::watch;

type Request = hyper::Request<Incoming>;
type Response = hyper::Response<Body>;

fn status(refusal: Refusal) -> Status {
    Status::new(GrpcCode::from_i32(refusal.code as i32), refusal.message)
}

/// Answers a call.
pub(super) async fn answer(door: Arc<Door>, request: Request) -> Result<Response, Infallible> {
    door.pay(CALL_COST).await;
    let path = request.uri().path().strip_prefix("/agones.dev.sdk.").map(str::to_owned);
    let response = match path.as_deref() {
        Some("SDK/Ready") => unary(&door, request, Desk::ready).await,
        Some("SDK/Allocate") => unary(&door, request, Desk::allocate).await,
        Some("SDK/Shutdown") => unary(&door, request, Desk::shutdown).await,
        Some("SDK/Reserve") => unary(&door, request, Desk::reserve).await,
        Some("SDK/GetGameServer") => unary(&door, request, Desk::game_server).await,
        Some("SDK/SetLabel") => unary(&door, request, Desk::set_label).await,
        Some("SDK/SetAnnotation") => unary(&door, request, Desk::set_annotation).await,
        Some("SDK/Health") => {
            codec::<Empty, Empty>().client_streaming(Health(Arc::clone(&door)), request).await
        }
        Some("SDK/WatchGameServer") => {
            codec::<GameServer, Empty>().server_streaming(Watch(Arc::clone(&door)), request).await
        }
        Some("beta.SDK/GetCounter") => unary(&door, request, Desk::counter).await,
        Some("beta.SDK/UpdateCounter") => unary(&door, request, Desk::update_counter).await,
        Some("beta.SDK/GetList") => unary(&door, request, Desk::list).await,
        Some("beta.SDK/UpdateList") => unary(&door, request, Desk::update_list).await,
        Some("beta.SDK/AddListValue") => unary(&door, request, Desk::add_value).await,
        Some("beta.SDK/RemoveListValue") => unary(&door, request, Desk::remove_value).await,
        Some("alpha.SDK/PlayerConnect") => unary(&door, request, Desk::connect_player).await,
        Some("alpha.SDK/PlayerDisconnect") => unary(&door, request, Desk::disconnect_player).await,
        Some("alpha.SDK/IsPlayerConnected") => unary(&door, request, Desk::is_player).await,
        Some("alpha.SDK/GetConnectedPlayers") => unary(&door, request, Desk::player_ids).await,
        Some("alpha.SDK/GetPlayerCount") => unary(&door, request, Desk::player_count).await,
        Some("alpha.SDK/GetPlayerCapacity") => unary(&door, request, Desk::player_capacity).await,
        Some("alpha.SDK/SetPlayerCapacity") => {
            unary(&door, request, Desk::set_player_capacity).await
        }
        Some(_) | None => Status::unimplemented("the Agones SDK has no such call").into_http(),
    };
    door.tell();
    Ok(response)
}

fn codec<A, Q>() -> Grpc<ProstCodec<A, Q>>
where
    A: Message + Default + 'static,
    Q: Message + Default + 'static,
{
    Grpc::new(ProstCodec::default()).max_decoding_message_size(REQUEST_BYTES_MAX)
}

type Work<Q, A> = fn(&Desk, Q) -> Result<A, Refusal>;

async fn unary<Q, A>(door: &Arc<Door>, request: Request, work: Work<Q, A>) -> Response
where
    Q: Message + Default + 'static,
    A: Message + Default + 'static,
{
    let call = Unary { desk: Arc::clone(&door.desk), work };
    let answered = timeout(PATIENCE, codec::<A, Q>().unary(call, request)).await;
    answered.unwrap_or_else(|_| Status::deadline_exceeded("no whole request").into_http())
}

/// A call with one message each way.
struct Unary<Q, A> {
    desk: Arc<Desk>,
    work: Work<Q, A>,
}

impl<Q, A> UnaryService<Q> for Unary<Q, A> {
    type Response = A;
    type Future = Ready<Result<tonic::Response<A>, Status>>;

    fn call(&mut self, request: tonic::Request<Q>) -> Self::Future {
        let answer = (self.work)(&self.desk, request.into_inner());
        ready(answer.map(tonic::Response::new).map_err(status))
    }
}

type Later<T> = Pin<Box<dyn Future<Output = Result<tonic::Response<T>, Status>> + Send>>;

/// Signs of health, for as long as they come.
struct Health(Arc<Door>);

impl ClientStreamingService<Empty> for Health {
    type Response = Empty;
    type Future = Later<Empty>;

    fn call(&mut self, request: tonic::Request<Streaming<Empty>>) -> Self::Future {
        let door = Arc::clone(&self.0);
        Box::pin(async move {
            let mut signs = request.into_inner();
            while signs.message().await?.is_some() {
                door.desk.health(Instant::now());
                door.pay(CALL_COST).await;
            }
            Ok(tonic::Response::new(Empty {}))
        })
    }
}

struct Watch(Arc<Door>);

type Pictures = Pin<Box<dyn tokio_stream::Stream<Item = Result<GameServer, Status>> + Send>>;

impl ServerStreamingService<Empty> for Watch {
    type Response = GameServer;
    type ResponseStream = Pictures;
    type Future = Ready<Result<tonic::Response<Pictures>, Status>>;

    fn call(&mut self, _: tonic::Request<Empty>) -> Self::Future {
        let pictures = watch::begin(&self.0).map_err(status);
        ready(pictures.map(|it| {
            let pictures: Pictures = Box::pin(ReceiverStream::new(it).map(Ok));
            tonic::Response::new(pictures)
        }))
    }
}
