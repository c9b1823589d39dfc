//! Folds schemas without errors into the model.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use super::types::{Element, TypeText};
use super::{default, is_removed};
use crate::model::{Domain, Family, Field, Kind, Message, Model, Partner, RemovedApi, Struct, Type, Use};
use crate::names;
use crate::schema::{self, Key, Schema};
use crate::source::folder;
use crate::versions::{Versions, When};

/// Builds the model of schemas that have been found to be right.
pub(super) fn model(schemas: &[Schema]) -> Model {
    // `None` sorts before the names of folders.
    let mut families: BTreeMap<Option<&str>, Family> = BTreeMap::new();
    for schema in schemas {
        let name = folder(&schema.source);
        let family = families.entry(name).or_insert_with(|| Family {
            name: name.map(str::to_owned),
            messages: Vec::new(),
            removed: Vec::new(),
        });
        if is_removed(schema) {
            family.removed.extend(removed(schema));
        } else {
            family.messages.extend(message(schema, schemas));
        }
    }
    let mut families: Vec<_> = families.into_values().collect();
    for family in &mut families {
        family.messages.sort_by(|a, b| a.name.cmp(&b.name));
        family.removed.sort_by(|a, b| a.name.cmp(&b.name));
    }
    Model { families }
}

fn removed(schema: &Schema) -> Option<RemovedApi> {
    Some(RemovedApi {
        name: schema.name.get()?.clone(),
        kind: *schema.kind.get()?,
        api_key: *schema.api_key.get()?,
    })
}

fn message(schema: &Schema, schemas: &[Schema]) -> Option<Message> {
    let name = schema.name.get()?;
    let mut header_versions: Vec<_> = schema
        .header_versions
        .items()
        .iter()
        .filter_map(|member| Some((*member.versions.get()?, *member.header.get()?)))
        .collect();
    header_versions.sort_by_key(|(versions, _)| versions.low());
    Some(Message {
        name: name.clone(),
        module: names::snake_case(name),
        source: schema.source.clone(),
        kind: *schema.kind.get()?,
        api_key: schema.api_key.get().copied(),
        listeners: schema.listeners.items().to_vec(),
        latest_version_unstable: schema.latest_version_unstable.get().copied().unwrap_or(false),
        valid: *schema.valid.get()?,
        flexible: versions(&schema.flexible),
        deprecated: versions(&schema.deprecated),
        doc: schema.doc.clone(),
        header_versions,
        partner: partner(schema, schemas),
        structs: Shapes::new(schema)?.structs(),
    })
}

/// The other half of an API, if it has a codec too.
fn partner(schema: &Schema, schemas: &[Schema]) -> Option<Partner> {
    let wanted = match schema.kind.get()? {
        Kind::Request => Kind::Response,
        Kind::Response => Kind::Request,
        _ => return None,
    };
    let partner = schemas.iter().find(|other| {
        other.kind.get() == Some(&wanted) && other.api_key.get() == schema.api_key.get() && !is_removed(other)
    })?;
    let name = partner.name.get()?;
    Some(Partner { family: folder(&partner.source).map(str::to_owned), rust_name: names::type_name(name) })
}

/// The structs of a message by name, on the way to the model.
struct Shapes<'a> {
    flexible: Versions,
    common: HashMap<&'a str, &'a schema::CommonStruct>,
    /// The message itself, then what it reaches, depth first in order of first use.
    shapes: Vec<Shape<'a>>,
    by_name: HashMap<&'a str, usize>,
    /// Smallest sizes that are known, by shape and version.
    sizes: HashMap<(usize, i16), usize>,
}

struct Shape<'a> {
    name: &'a str,
    fields: Vec<Member<'a>>,
    context: Versions,
    /// The versions at which something changes in it or in what it contains; 0 is among them.
    boundaries: BTreeSet<i16>,
}

struct Member<'a> {
    field: &'a schema::Field,
    name: &'a str,
    ty: TypeText<'a>,
    versions: Versions,
    /// The shape of its type or elements.
    shape: Option<usize>,
}

impl<'a> Shapes<'a> {
    fn new(schema: &'a Schema) -> Option<Self> {
        let name = schema.name.get()?;
        let valid = *schema.valid.get()?;
        let common = schema.common_structs.items().iter();
        let mut it = Self {
            flexible: versions(&schema.flexible),
            common: common.filter_map(|it| Some((it.name.get()?.as_str(), it))).collect(),
            shapes: Vec::new(),
            by_name: HashMap::new(),
            sizes: HashMap::new(),
        };
        it.add(name, schema.fields.items());
        it.contexts(valid);
        Some(it)
    }

    /// Adds a struct and those that it is the first to use.
    fn add(&mut self, name: &'a str, fields: &'a [schema::Field]) -> usize {
        let index = self.shapes.len();
        let boundaries = changes(self.flexible).chain([0]).collect();
        self.shapes.push(Shape { name, fields: Vec::new(), context: Versions::NONE, boundaries });
        self.by_name.insert(name, index);
        for field in fields {
            let (Some(name), Some(ty)) = (field.name.get(), field.ty.get()) else { continue };
            let Ok(ty) = TypeText::parse(ty) else { continue };
            let shape = ty.struct_name().map(|name| match self.by_name.get(name) {
                Some(&known) => known,
                None => self.add(name, self.fields_of(name, field)),
            });
            let [nullable, tagged, flexible] =
                [&field.nullable, &field.tagged, &field.flexible].map(versions);
            let versions = field.versions.get().copied().unwrap_or(tagged);
            let changes = [versions, nullable, tagged, flexible].into_iter().flat_map(changes);
            self.shapes[index].boundaries.extend(changes);
            self.shapes[index].fields.push(Member { field, name, ty, versions, shape });
        }
        index
    }

    /// The members of a common struct, or those that its only use gives.
    fn fields_of(&self, name: &str, field: &'a schema::Field) -> &'a [schema::Field] {
        self.common.get(name).map_or(field.fields.items(), |common| common.fields.items())
    }

    /// Finds out in which versions each struct can occur, and where it changes.
    fn contexts(&mut self, valid: Versions) {
        let mut order = Vec::new();
        let mut seen = vec![false; self.shapes.len()];
        self.used_before_users(0, &mut seen, &mut order);
        if let Some(message) = self.shapes.first_mut() {
            message.context = valid;
        }
        for &index in &order {
            let used: Vec<_> = self.shapes[index].fields.iter().filter_map(|member| member.shape).collect();
            for used in used {
                let boundaries = self.shapes[used].boundaries.clone();
                self.shapes[index].boundaries.extend(boundaries);
            }
        }
        for index in order.into_iter().rev() {
            let context = self.shapes[index].context;
            let uses: Vec<_> = self.shapes[index]
                .fields
                .iter()
                .filter_map(|member| Some((member.shape?, member.versions.intersect(context))))
                .collect();
            for (used, versions) in uses {
                self.shapes[used].context = self.shapes[used].context.hull(versions);
            }
        }
    }

    fn used_before_users(&self, index: usize, seen: &mut [bool], order: &mut Vec<usize>) {
        if std::mem::replace(&mut seen[index], true) {
            return;
        }
        for used in self.shapes[index].fields.iter().filter_map(|member| member.shape) {
            self.used_before_users(used, seen, order);
        }
        order.push(index);
    }

    /// The structs that occur in some version, with the fields that they have in some version.
    fn structs(mut self) -> Vec<Struct> {
        // Depth first once more, for a dropped field may have been the first use.
        let mut order = Vec::new();
        self.occurring(0, &mut vec![false; self.shapes.len()], &mut order);
        let mut position = vec![0; self.shapes.len()];
        for (at, &index) in order.iter().enumerate() {
            position[index] = at;
        }

        let sizes: Vec<_> = order.iter().map(|&index| self.min_size(index)).collect();
        let mut structs = Vec::new();
        for (&index, min_size) in order.iter().zip(sizes) {
            let shape = &self.shapes[index];
            structs.push(Struct {
                name: shape.name.to_owned(),
                rust_name: names::type_name(shape.name),
                context: shape.context,
                min_size,
                known_tags: shape.fields.iter().filter(|member| member.field.tag.get().is_some()).count()
                    as u32,
                fields: shape
                    .occurring()
                    .map(|member| self.field(member, shape.context, &position))
                    .collect(),
                retired: shape.retired().map(|member| self.field(member, shape.context, &position)).collect(),
                uses: Vec::new(),
            });
        }
        for (of, &index) in order.iter().enumerate() {
            for (field, member) in self.shapes[index].occurring().enumerate() {
                if let Some(shape) = member.shape {
                    structs[position[shape]].uses.push(Use { of, field });
                }
            }
        }
        structs
    }

    fn occurring(&self, index: usize, seen: &mut [bool], order: &mut Vec<usize>) {
        if std::mem::replace(&mut seen[index], true) {
            return;
        }
        order.push(index);
        for used in self.shapes[index].occurring().filter_map(|member| member.shape) {
            self.occurring(used, seen, order);
        }
    }

    fn field(&self, member: &Member<'_>, context: Versions, position: &[usize]) -> Field {
        let field = member.field;
        let name = member.name;
        let tagged_versions = versions(&field.tagged);
        let nullable_versions = versions(&field.nullable);
        let present = member.versions.intersect(context);
        // Tagged versions have no end, so that what is inline comes before them.
        let inline = if tagged_versions.is_empty() {
            member.versions
        } else {
            member.versions.before(tagged_versions.low())
        };
        let element = match (&member.ty.element, member.shape) {
            (Element::Plain(plain), _) => plain.clone(),
            (Element::Struct(_), shape) => Type::Struct(shape.map_or(0, |shape| position[shape])),
        };
        let own_flexible = field.flexible.get().copied();
        Field {
            name: name.to_owned(),
            rust_name: names::field_name(name),
            domain: domain(name, &member.ty),
            ty: if member.ty.array { Type::Array(Box::new(element)) } else { element },
            versions: member.versions,
            nullable_versions,
            tagged_versions,
            tag: field
                .tag
                .get()
                .and_then(|&tag| u32::try_from(tag).ok())
                .filter(|_| !tagged_versions.is_empty()),
            flexible_versions: own_flexible
                .filter(|own| own.intersect(present) != self.flexible.intersect(present)),
            inline: inline.when(context),
            tagged: tagged_versions.intersect(member.versions).when(context),
            present: member.versions.when(context),
            nullable: nullable_versions.when(present),
            default: default::parse(&member.ty, field.default.get().map(String::as_str))
                .unwrap_or(crate::model::Default::Empty),
            ignorable: field.ignorable.get().copied().unwrap_or(false),
            map_key: field.map_key.get().copied().unwrap_or(false),
            entity_type: field
                .entity_type
                .get()
                .filter(|&&entity| entity != schema::EntityType::Unknown)
                .map(|entity| entity.word().to_owned()),
            zero_copy: field.zero_copy.get().copied().unwrap_or(false),
            about: field.about.get().cloned().unwrap_or_default(),
        }
    }

    /// The fewest bytes of a struct in the versions in which it occurs.
    fn min_size(&mut self, index: usize) -> usize {
        let Shape { context, boundaries, .. } = &self.shapes[index];
        let mut at: Vec<i16> = boundaries.range(context.low()..=context.high()).copied().collect();
        at.push(context.low());
        at.into_iter().map(|version| self.min_size_at(index, version)).min().unwrap_or(0)
    }

    fn min_size_at(&mut self, index: usize, version: i16) -> usize {
        // Between two boundaries nothing changes.
        let version = self.shapes[index].boundaries.range(..=version).next_back().copied().unwrap_or(version);
        if let Some(&known) = self.sizes.get(&(index, version)) {
            return known;
        }
        let mut size = usize::from(self.flexible.contains(version));
        for at in 0..self.shapes[index].fields.len() {
            let member = &self.shapes[index].fields[at];
            if !member.versions.contains(version) || versions(&member.field.tagged).contains(version) {
                continue;
            }
            let flexible = member.field.flexible.get().unwrap_or(&self.flexible).contains(version);
            let least = match (&member.ty.element, member.shape) {
                _ if member.ty.array => length_size(4, flexible),
                (Element::Plain(Type::String), _) => length_size(2, flexible),
                (Element::Plain(Type::Bytes | Type::Records), _) => length_size(4, flexible),
                (Element::Plain(plain), _) => plain.fixed_size().unwrap_or(0),
                (Element::Struct(_), _) if versions(&member.field.nullable).contains(version) => 1,
                (Element::Struct(_), Some(shape)) => self.min_size_at(shape, version),
                (Element::Struct(_), None) => 0,
            };
            // Structs that contain each other many times over can exceed every number.
            size = size.saturating_add(least);
        }
        self.sizes.insert((index, version), size);
        size
    }
}

impl<'a> Shape<'a> {
    /// The fields that some version of the context has.
    fn occurring(&self) -> impl Iterator<Item = &Member<'a>> {
        self.fields.iter().filter(|member| member.versions.when(self.context) != When::Never)
    }

    /// The others, of which only structs can not occur in any version either.
    fn retired(&self) -> impl Iterator<Item = &Member<'a>> {
        self.fields
            .iter()
            .filter(|member| member.versions.when(self.context) == When::Never && member.shape.is_none())
    }
}

/// The first version of a range and the first after it.
fn changes(range: Versions) -> impl Iterator<Item = i16> {
    let first = (!range.is_empty()).then(|| range.low());
    let after = first.and_then(|_| range.high().checked_add(1));
    first.into_iter().chain(after)
}

/// The size of a length.
fn length_size(legacy: usize, flexible: bool) -> usize {
    if flexible { 1 } else { legacy }
}

fn domain(name: &str, ty: &TypeText<'_>) -> Option<Domain> {
    match (&ty.element, name) {
        (Element::Plain(Type::Int16), name) if !ty.array && name.ends_with("ErrorCode") => {
            Some(Domain::ErrorCode)
        }
        (Element::Plain(Type::Int8), "AcknowledgeType" | "AcknowledgeTypes") => Some(Domain::AcknowledgeType),
        _ => None,
    }
}

/// The versions under a key; none if it is not there.
fn versions(key: &Key<Versions>) -> Versions {
    key.get().copied().unwrap_or(Versions::NONE)
}
